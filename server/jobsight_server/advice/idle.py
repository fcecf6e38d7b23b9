"""What to do about idle processors and GPUs, in words, for all surfaces that advise on them."""

from __future__ import annotations

from typing import Literal

from jobsight_server.ground.amounts import many, percent

Held = Literal["processors", "gpus"]
"""What a job holds and may leave idle."""

_NOUNS: dict[Held, str] = {"processors": "processor", "gpus": "GPU"}


def used(busy: float, what: Held, jobs: int, most: int) -> str:
    """Write how busy ``jobs`` kept what they held, of which one held ``most`` at the most, and what to do.

    ``busy``: a share of the time. A job on one processor cannot request fewer.

    >>> used(0.21, "processors", 8, 1)
    'the processor of each of 8 jobs was idle 79 % of the time. Check what they wait for, such as files or the network.'
    >>> used(0.04, "processors", 1, 32)
    '1 job used 4 % of its processors. Request fewer, or check that the program uses them.'
    """
    noun = _NOUNS[what]
    if most == 1:
        of = f"the {noun} of {'' if jobs == 1 else 'each of '}{many(jobs, 'job')}"
        found = f"{of} was idle {percent(1.0 - busy)} of the time."
    else:
        found = f"{many(jobs, 'job')} used {percent(busy)} of {'its' if jobs == 1 else 'their'} {noun}s."
    return f"{found} {to_do(what, most, is_one=jobs == 1)}"


def unseen(held_hours: float, jobs: int) -> str:
    """Write that ``jobs`` used hardly any of the processor-hours that they held, and what to do."""
    return (
        f"{many(jobs, 'job')} held {held_hours:,.0f} processor-hours and used less than 0.5 % of them. Either "
        f"{'it was' if jobs == 1 else 'they were'} idle, or the processes were started outside the batch system, which "
        "then cannot see or end them. Start processes with the batch system's launcher, such as srun, or with an "
        "mpirun that knows it."
    )


def to_do(what: Held, most: int, *, is_one: bool = False) -> str:
    """Write to a user what to do about idle ones, of which no job held more than ``most``; ``is_one``: of one job."""
    if most == 1 and what == "processors":
        return f"Check what {'it waits' if is_one else 'they wait'} for, such as files or the network."
    if most == 1:
        return "Request none, or check that the program uses it."
    return "Request fewer, or check that the program uses them."


def to_ask(user: str, what: Held, most: int) -> str:
    """Write the same to staff: what to ask the user."""
    if most == 1 and what == "processors":
        return f"Ask {user} what the programs wait for, such as files or the network: each job has one processor."
    if most == 1:
        return f"Ask {user} whether the programs use a GPU: each job has one."
    return f"Ask {user} whether the programs are serial, or wait for data, and to request fewer {_NOUNS[what]}s."
