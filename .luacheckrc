-- Slurm's plugins run in Lua 5.1 or later, with the table `slurm`.
std = "min"
globals = { "slurm_job_submit", "slurm_job_modify" }
read_globals = { "slurm" }
files["tests/deploy/slurm"] = { globals = { "slurm" } }
