"""A hook of PBS Professional and OpenPBS that marks a job's first and last reading on each of its nodes.

It calls the script ``mark-job`` under the event's name, which never holds or fails a job. Its order is before that of
PBS's own hook ``pbs_cgroups``, which removes a job's cgroup in ``execjob_epilogue``.
"""

import subprocess

import pbs

FOLDER = "/usr/local/lib/jobsight"
LIMIT_S = 3  # the script's own is 2

event = pbs.event()
names = {
    pbs.EXECJOB_BEGIN: "execjob_begin",
    pbs.EXECJOB_EPILOGUE: "execjob_epilogue",
    pbs.EXECJOB_END: "execjob_end",
}
try:
    subprocess.call([FOLDER + "/" + names[event.type], event.job.id], timeout=LIMIT_S)
except (OSError, subprocess.SubprocessError) as error:
    pbs.logmsg(pbs.LOG_WARNING, f"jobsight: no reading of {event.job.id}: {error}")
event.accept()
