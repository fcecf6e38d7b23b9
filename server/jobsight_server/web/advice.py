"""``/api/v1/advice``: what to request for a job at submission, in its scheduler's words."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from werkzeug.exceptions import BadRequest

from jobsight_server.advice.recommendation import plain_request
from jobsight_server.advice.scheduler_words import (
    PbsRequest,
    RequestError,
    SlurmRequest,
    pbs_request,
    slurm_request,
)
from jobsight_server.advice.submitted import Advice, advise
from jobsight_server.forecasts.request import job_question
from jobsight_server.ground.facts import FACTS_AT_MOST, facts_in, facts_of
from jobsight_server.ground.job_names import engine_of, readable_name
from jobsight_server.web.kit.inputs import DescribedJob, Gpus, job_in_body, parsed_body
from jobsight_server.web.kit.routes import Route, context, reading

COMMENT_AT_MOST = 4096  # characters
_SHAPE = '{"cluster": C, "user": U, "application": NAME, "slurm": {"num_tasks": 4, "mem": "4G", "time_limit": 60}}'


class AdviceQuestion(DescribedJob, kw_only=True):
    """The job at submission.

    Its resources are in Slurm's words, in those of PBS, or else in ``processors``, ``memory_bytes`` and ``walltime_s``.
    Slurm's partition is the ``queue``. The user's ``comment`` may name the application and give facts. A script that
    only shows the answer ``sets_memory`` to false.
    """

    comment: Annotated[str, Meta(max_length=COMMENT_AT_MOST)] | None = None

    gpus: Gpus | None = None
    sets_memory: bool = True
    slurm: SlurmRequest | None = None
    pbs: PbsRequest | None = None


def give_advice() -> Advice:
    asked = parsed_body(AdviceQuestion, _SHAPE)
    words = [name for name in ("slurm", "pbs") if getattr(asked, name) is not None]
    plain = [name for name in ("processors", "memory_bytes", "walltime_s") if getattr(asked, name) is not None]
    if len(words) > 1 or (words and plain):
        raise BadRequest(
            f"{', '.join((*words, *plain))}: say what the job asks for in one of slurm, pbs or plain fields"
        )
    engine = engine_of(asked.application, asked.comment)
    asked.application = readable_name(asked.application, asked.comment)
    in_comment = dict(facts_of(facts_in(asked.comment).text))
    in_body = asked.facts or {}
    asked.facts = dict([*(in_body | in_comment | in_body).items()][:FACTS_AT_MOST])  # the body's come first and win
    cluster, question = job_in_body(asked, "")
    try:
        if asked.slurm is not None:
            request = slurm_request(asked.slurm)
        elif asked.pbs is not None:
            request = pbs_request(asked.pbs)
        else:
            request = plain_request(question)
    except RequestError as error:
        raise BadRequest(str(error)) from error
    resources = job_question("", None, None, request.processors, request.memory_bytes, request.walltime_s)
    question = question._replace(
        processors=resources.processors,
        requested_memory_bytes=resources.requested_memory_bytes,
        requested_time_s=resources.requested_time_s,
    )
    here = context()
    return advise(
        reading(), here.answers, cluster, question, request, asked.pbs,
        slurm=asked.slurm is not None, gpus=asked.gpus, engine=engine,
        lately=here.lately if asked.sets_memory else None, now=here.clock(),
    )  # fmt: skip


ROUTES = (
    Route(
        "/api/v1/advice",
        give_advice,
        "What to request for a job at submission: forecasts for the whole job, what similar jobs used, one line "
        "of text, and the recommendation in the scheduler's words",
        method="POST",
        roles=("scheduler", "submitter"),
        body=AdviceQuestion,
    ),
)
