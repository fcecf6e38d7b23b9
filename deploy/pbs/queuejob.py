"""Hook of PBS Professional and OpenPBS for the event queuejob: asks Jobsight about each submitted job.

It writes the advice to the job's comment and the server's log and, if the site chose so, sets the job's memory and
run time. It never rejects a job, and waits 100 ms at most. docs/use/submission.md shows how to install it.
"""

import sys

import pbs

SETTINGS = {
    "settings_file": "/etc/jobsight/submit.conf",  # the site's choices, which win over this block; read for each job
    "address": "127.0.0.1",  # of the Jobsight server
    "port": 8470,
    "cluster": "default",  # this cluster's name in Jobsight
    "token_file": "/etc/jobsight/pbs-token",  # of a token of role submitter; readable by root only
    "breaker_file": "/var/spool/pbs/server_priv/jobsight-submission",  # counts questions without an answer
}

LIBRARY = "/usr/local/lib/jobsight"  # where jobsight_advice.py is

WORDS = ("select", "nodes", "ncpus", "mem", "pmem", "walltime")


def text_of(value):
    """Return an attribute as text; None if it is not set."""
    text = "" if value is None else str(value).strip()
    return text or None


def words_of(job, library):
    """Return the words for Jobsight; with ``qsub -v``, a comma separates variables."""
    variables = text_of(job.Variable_List) or ""
    return library.words_of(text_of(job.comment), variables.replace(",", " "))


def question_of(event, words):
    job = event.job
    question = {
        "user": text_of(event.requestor),
        "application": text_of(job.Job_Name),
        "queue": text_of(getattr(job.queue, "name", job.queue)),
        "account": text_of(job.Account_Name),
        "comment": words,
        "pbs": {name: text_of(job.Resource_List[name]) for name in WORDS},
    }
    return {name: value for name, value in question.items() if value is not None}


def set_request(job, library, answer, mode):
    """Set the values that ``mode`` allows; return a text for each."""
    done = []
    requested = job.Resource_List
    names = {"select": library.SELECT} if text_of(requested["select"]) else {"mem": library.MEMORY}
    if text_of(requested["pmem"]) and not text_of(requested["mem"]) and "mem" in names:
        names = {"pmem": library.MEMORY}
    memory = library.megabytes(library.in_words(answer, "mem", library.MEMORY))
    if library.wanted(mode["memory"], library.requested(answer, "memory"), memory):
        for name, form in names.items():
            value = library.in_words(answer, name, form)
            if value is not None:
                done.append(f"{name} {requested[name]} -> {value}")
                requested[name] = pbs.select(value) if name == "select" else pbs.size(value)
    walltime = library.in_words(answer, "walltime", library.CLOCK)
    if library.wanted(mode["time"], library.requested(answer, "runtime"), library.clock_s(walltime)):
        done.append(f"walltime {requested['walltime']} -> {walltime}")
        requested["walltime"] = pbs.duration(walltime)
    return done


def advise(event):
    if LIBRARY not in sys.path:
        sys.path.insert(0, LIBRARY)
    import jobsight_advice as library

    words = words_of(event.job, library)
    question = question_of(event, words)
    choices, problems = library.choices(SETTINGS)
    for problem in problems:
        pbs.logmsg(pbs.LOG_ERROR, f"jobsight: {problem}")
    try:
        answer = library.advice(choices, question, lambda line: pbs.logmsg(pbs.LOG_WARNING, f"jobsight: {line}"))
    except library.NoAdviceError as error:
        pbs.logmsg(pbs.LOG_WARNING, f"jobsight: no advice: {error}")
        return
    done, keeper = [], library.kept_by(words, answer, output=text_of(event.job.Output_Path) or "")
    if keeper is None and library.such_jobs(answer) >= choices["such_jobs"]:
        done = set_request(event.job, library, answer, library.mode_of(choices, question.get("queue")))
    text = "jobsight: " + library.one_line(answer["text"], 400) + (" Set: " + ", ".join(done) if done else "")
    text += f" Not changed: {keeper}" if keeper else ""
    pbs.logmsg(pbs.LOG_DEBUG, f"{question['user']}: {text}")
    event.job.comment = f"{text}; {words}" if words else text  # the log has the comment


def main():
    event = pbs.event()
    try:
        advise(event)
    except Exception as error:  # noqa: BLE001 - PBS rejects the job if its hook fails by any fault
        pbs.logmsg(pbs.LOG_ERROR, f"jobsight: {type(error).__name__}: {error}")
    event.accept()


main()
