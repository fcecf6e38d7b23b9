-- Job submit plugin of Slurm for a site without one of its own: asks Jobsight about each job, by the two lines that a
-- site's own job_submit.lua needs. Install it beside slurm.conf, with jobsight_submit.lua and jobsight.lua, and set
-- JobSubmitPlugins=lua.

local has_jobsight, jobsight = pcall(dofile, "/etc/slurm/jobsight_submit.lua")

function slurm_job_submit(job_desc, part_list, _submit_uid)
  if has_jobsight then jobsight.submit(job_desc, part_list) end
  return slurm.SUCCESS
end

function slurm_job_modify(_job_desc, _job_rec, _part_list, _modify_uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
