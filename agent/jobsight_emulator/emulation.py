"""The whole site of a plan, ready to be played: jobs placed, log lines made, nodes at their start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from jobsight_agent import __version__
from jobsight_agent.batch import AgentCost, machine_to_wire, pack, to_wire
from jobsight_agent.machine import OwnerPresence
from jobsight_emulator.accounting import LogLine, make_entries
from jobsight_emulator.placement import EmulatedRun, place_jobs
from jobsight_emulator.plan import EmulatorError, SitePlan
from jobsight_emulator.readings import EmulatedReader, NodeColumns, make_segments
from jobsight_emulator.site import Cluster, make_site
from jobsight_emulator.truth import Truth, make_truth
from jobsight_emulator.workload import EmulatedJob, make_jobs


@dataclass(frozen=True, slots=True)
class Emulation:
    """``entries`` and ``truths`` per cluster in order of time."""

    plan: SitePlan
    batch_readings: int
    clusters: tuple[Cluster, ...]
    stations: list[Station]
    entries: dict[str, list[LogLine]]
    truths: dict[str, list[Truth]]


def make_emulation(
    plan: SitePlan, batch_readings: int, jobs_of: Callable[[SitePlan, Cluster], list[EmulatedJob]] = make_jobs
) -> Emulation:
    """Make the emulation of ``plan``, whose clusters run the jobs of ``jobs_of``.

    Raises:
        EmulatorError: the server would not accept batches of that many readings.
    """
    if not 1 <= batch_readings <= 5_000:
        raise EmulatorError(f"{batch_readings} readings per batch: give 1 to 5000")
    clusters = make_site(plan)
    stations: list[Station] = []
    entries: dict[str, list[LogLine]] = {}
    truths: dict[str, list[Truth]] = {}
    for cluster in clusters:
        jobs = jobs_of(plan, cluster)
        runs = place_jobs(plan, cluster, jobs)
        entries[cluster.name] = make_entries(cluster, jobs, runs)
        truths[cluster.name] = make_truth(cluster, runs)
        on_node: list[list[EmulatedRun]] = [[] for _ in cluster.nodes]
        for run in runs:
            for place in run.places:
                on_node[place.node].append(run)
        for position, node in enumerate(cluster.nodes):
            segments = make_segments(node, position, on_node[position], plan)
            stations.append(Station(EmulatedReader(node, segments, plan), plan, batch_readings))
    return Emulation(plan, batch_readings, clusters, stations, entries, truths)


_GZIP_LEVEL = 1


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """One request body; ``again`` marks the second copy of a batch that is sent twice on purpose."""

    body: bytes
    readings: int
    again: bool = False


class Station:
    """Closes and encodes the batches of one node, independently of the delivery; ``reader`` takes its readings."""

    def __init__(self, reader: EmulatedReader, plan: SitePlan, batch_readings: int) -> None:
        self.reader = reader
        self._batch_readings = batch_readings
        self._faults = plan.faults
        self._rng = plan.rng("delivery", reader.node.name)
        self._sequence = 0
        self._readings = 0

    def pack(self, columns: NodeColumns) -> list[PackedBatch]:
        """Pack ``columns`` into batches, in the order of delivery."""
        count = len(columns)
        pieces = -(-count // self._batch_readings)
        late = count >= 2 and self._rng.random() < self._faults.late_batches
        if late:
            pieces = max(pieces, 2)
        cuts = [count * piece // pieces for piece in range(pieces + 1)]
        batches = [self._pack_batch(columns.part(begin, end)) for begin, end in pairwise(cuts)]
        if late:
            batches[0], batches[1] = batches[1], batches[0]
        if self._rng.random() < self._faults.duplicate_batches:
            first = batches[0]
            batches.append(PackedBatch(first.body, first.readings, again=True))
        return batches

    def _pack_batch(self, columns: NodeColumns) -> PackedBatch:
        self._sequence += 1
        self._readings += len(columns)
        cost = AgentCost(__version__, readings=self._readings, readings_missed=columns.lost)
        node = self.reader.node
        batch = to_wire(
            columns,
            cluster=node.cluster,
            node=node.name,
            sequence=self._sequence,
            sent_at=None,
            cost=cost,
            machine=machine_to_wire(node.machine, OwnerPresence(), None),
        )
        return PackedBatch(pack(batch, _GZIP_LEVEL), len(columns))
