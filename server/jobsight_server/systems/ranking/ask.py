"""Ranks of machines for a job: which may take it, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from jobsight_predictor.reliability.machine_facts import HardRequirements
from jobsight_predictor.reliability.rank import Bools, Ranking, ranked
from jobsight_predictor.reliability.resource_vector import Vectors, capacities, vectors
from jobsight_predictor.reliability.success import both, chance_not_to_fail
from jobsight_predictor.reliability.survival import Chances
from jobsight_server.systems.ranking.board import MachineBoard, MachineColumns
from jobsight_server.systems.ranking.config import RankConfig
from jobsight_server.systems.ranking.rows import Name
from jobsight_server.systems.ranking.settings import RankMethod


@dataclass(frozen=True, slots=True)
class RankQuestion:
    """A job that runs for ``run_time_s`` on ``processors`` of one machine. ``everywhere``: busy, absent ones too."""

    run_time_s: float
    method: RankMethod
    cluster: str | None = None
    processors: int = 1
    needs: HardRequirements = field(default_factory=HardRequirements)
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class MachineRanks:
    """Machines in order of their rank, with all terms by the machine's number in ``columns``.

    ``stays`` and ``sound`` are the chances that the machine stays for the run, and that it does not fail the job.
    ``present``: available to jobs, or not watched by any agent; ``free``: has the processors asked for.
    """

    columns: MachineColumns
    ranking: Ranking
    vectors: Vectors
    stays: Chances
    sound: Chances
    present: Bools
    free: Bools
    meets: Bools

    @property
    def order(self) -> NDArray[np.int64]:
        return self.ranking.order


def rank_machines(columns: MachineColumns, config: RankConfig, question: RankQuestion, now: float) -> MachineRanks:
    """The ranks of all machines that the question allows, best first."""
    numbers = columns.numbers
    age_s = np.maximum(now - numbers["since"], 0.0)
    present = np.isfinite(age_s) | (numbers["watched"] == 0.0)
    # Of a machine that no agent describes, the processors are not known: it takes one job.
    free = numbers["busy_processors"] + question.processors <= np.nan_to_num(numbers["processors"], nan=1.0)
    meets = columns.offers.meeting(question.needs)
    if question.cluster is not None:
        meets &= np.array([cluster == question.cluster for cluster, _ in columns.names], dtype=np.bool_)
    vector = vectors(
        age_s,
        numbers["score"],
        numbers["jobs"],
        capacities(numbers["flops"], numbers["cores"], config.vector),
        config.vector,
    )
    stays = columns.survival.chance(np.arange(len(columns)), age_s, question.run_time_s)
    sound = chance_not_to_fail(numbers["sound"], numbers["failed"])
    chances = both(stays, sound)
    eligible = meets if question.everywhere else meets & present & free
    if question.method == "grv":
        known = numbers["jobs"] > 0.0
        ranking = ranked(vector.score, vector.low, vector.high, known, eligible)
    else:
        ranking = ranked(chances.mean, chances.low, chances.high, chances.known, eligible)
    if question.everywhere:  # those that could take the job come first
        usable = (present & free)[ranking.order]
        order = np.concatenate([ranking.order[usable], ranking.order[~usable]])
        ranking = Ranking(order, ranking.score, ranking.low, ranking.high, ranking.known)
    return MachineRanks(columns, ranking, vector, stays, sound, present, free, meets)


def ranks_of(
    board: MachineBoard,
    config: RankConfig,
    connection: Connection,
    names: Sequence[Name],
    run_time_s: float,
    now: float,
) -> dict[Name, float]:
    """The score in [0, 1] of each of these machines for a job of this run time; unknown machines are left out.

    For what chooses among machines by other rules, and takes the rank as a preference.
    """
    columns = board.columns(connection)
    found = rank_machines(columns, config, RankQuestion(run_time_s, config.method, everywhere=True), now).ranking
    wanted = {name: columns.by_name[name] for name in names if name in columns.by_name}
    return {name: float(found.score[number]) for name, number in wanted.items()}
