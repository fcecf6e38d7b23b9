"""What a process keeps in order to rank machines, and what it knows of them for the pages of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection

from jobsight_server.queries.machines import MachineLoss, Machines, NodeName, Reliability
from jobsight_server.systems.ranking.ask import RankQuestion, rank_machines
from jobsight_server.systems.ranking.board import MachineBoard
from jobsight_server.systems.ranking.config import RankConfig
from jobsight_server.systems.ranking.losses import lost, worst_machine
from jobsight_server.systems.ranking.queries import machine_ranking

_HISTORY_S = 28 * 86400.0


@dataclass(frozen=True, slots=True)
class MachineRanker(Machines):
    """The site's configuration, and what is known of its machines."""

    config: RankConfig
    board: MachineBoard = field(default_factory=MachineBoard)

    def chances(self, connection: Connection, run_time_s: float, now: float) -> Mapping[NodeName, float | None]:
        columns = self.board.columns(connection)
        ranking = rank_machines(columns, self.config, _question(run_time_s), now).ranking
        known = zip(columns.names, ranking.score.tolist(), ranking.known.tolist(), strict=True)
        return {name: score if is_known else None for name, score, is_known in known}

    def reliability(self, connection: Connection, name: NodeName, run_time_s: float, now: float) -> Reliability | None:
        columns, question = self.board.columns(connection), _question(run_time_s)
        found = machine_ranking(
            connection, columns, self.config, question, now, name=name[1], history_s=_HISTORY_S, limit=len(columns)
        )
        for row in found.machines:
            if row.cluster == name[0] and row.score is not None:
                jobs, hours = lost(connection, int(columns.ids[columns.by_name[name]]), now - _HISTORY_S)
                same = {field: getattr(row, field) for field in Reliability.__struct_fields__ if hasattr(row, field)}
                return Reliability(
                    **same,
                    run_time_s=run_time_s,
                    reliability=row.score,
                    stays=row.survival,
                    lost_jobs=jobs,
                    lost_processor_hours=hours,
                    history_since=now - _HISTORY_S,
                )
        return None

    def worst(self, connection: Connection, cluster: str | None, now: float) -> MachineLoss | None:
        return worst_machine(connection, cluster, now - _HISTORY_S)


def _question(run_time_s: float) -> RankQuestion:
    return RankQuestion(run_time_s, "survival", everywhere=True)
