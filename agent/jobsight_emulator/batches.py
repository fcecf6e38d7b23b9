"""A node's readings as batches in transit: closed, encoded, and some of them delivered out of order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from jobsight_agent import __version__
from jobsight_agent.batch import AgentCost, machine_to_wire, pack, to_wire
from jobsight_agent.owner import OwnerPresence
from jobsight_emulator.plan import SitePlan
from jobsight_emulator.readings import NodeColumns
from jobsight_emulator.site import EmulatedNode

_GZIP_LEVEL = 1


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """One request body; ``again`` marks the second copy of a batch that is sent twice on purpose."""

    body: bytes
    readings: int
    again: bool = False


class Packer:
    """Closes and encodes the batches of one node. Deterministic, whatever happens in delivery."""

    def __init__(self, node: EmulatedNode, plan: SitePlan, batch_readings: int) -> None:
        self._node = node
        self._batch_readings = batch_readings
        self._faults = plan.faults
        self._rng = plan.rng("delivery", node.name)
        self._sequence = 0
        self._readings = 0
        self.late = 0

    def pack(self, columns: NodeColumns) -> list[PackedBatch]:
        """The batches of ``columns`` in the order of their delivery."""
        count = len(columns)
        pieces = -(-count // self._batch_readings)
        late = count >= 2 and self._rng.random() < self._faults.late_batches
        if late:
            pieces = max(pieces, 2)
        cuts = [count * piece // pieces for piece in range(pieces + 1)]
        batches = [self._pack_batch(columns.part(begin, end)) for begin, end in pairwise(cuts)]
        if late:
            self.late += 1
            batches[0], batches[1] = batches[1], batches[0]
        if self._rng.random() < self._faults.duplicate_batches:
            first = batches[0]
            batches.append(PackedBatch(first.body, first.readings, again=True))
        return batches

    def _pack_batch(self, columns: NodeColumns) -> PackedBatch:
        self._sequence += 1
        self._readings += len(columns)
        cost = AgentCost(
            version=__version__,
            cpu_seconds=0.0,
            rss_bytes=0,
            readings=self._readings,
            readings_missed=columns.lost,
            metrics_missed={},
            batches_spooled=0,
            batches_dropped=0,
            send_failures=0,
        )
        node = self._node
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
