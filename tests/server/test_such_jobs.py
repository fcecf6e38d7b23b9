"""What is said of a user's jobs of which little was measured."""

from __future__ import annotations

from jobsight_predictor.question import Question
from jobsight_server.advice.decision import Decision
from jobsight_server.advice.recommendation import Recommendation
from jobsight_server.advice.scheduler_words import JobRequest
from jobsight_server.advice.such_jobs import SuchJob, such_jobs
from jobsight_server.advice.words import sentence

MIB = 2**20
MEASURED = SuchJob(1, "1", "cfd", "cfd", None, None, None, 1, 1600 * MIB, 300.0, 104 * MIB, 4.0, None)
KILLED = MEASURED._replace(run_id=2, memory_bytes=None, runtime_s=None, failure="memory")


def said(*runs: SuchJob) -> str:
    such = such_jobs(runs, Question("ann", "cfd"), 1)
    decisions = {"memory": Decision(402.0 * MIB, None, 1, 104.0 * MIB), "runtime": Decision(None, None, 1, 4.0)}
    return sentence(Recommendation(JobRequest(1, 1, 1600 * MIB, None), such, {}, decisions))


def test_a_job_that_was_killed_before_it_was_measured_is_why_more_is_recommended() -> None:
    assert said(MEASURED, KILLED) == (
        "Ask for 402M. Your last 2 similar jobs used at most 104M (1 measured) and ran at most 4 s (1 ran out of "
        "memory). This job requests 1600M and has no time limit."
    )
    assert said(KILLED) == "Ask for 402M. Your last similar job: it ran out of memory. This job requests 1600M."
    assert said(MEASURED) == (
        "Ask for 402M. Your last similar job used 104M and ran 4 s. This job requests 1600M and has no time limit."
    )
