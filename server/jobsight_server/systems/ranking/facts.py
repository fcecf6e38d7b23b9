"""What kind of machine it is: by which jobs choose and ranks compare, as stored in a row."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from jobsight_predictor.reliability.machine_facts import MachineFacts

# The fastest that a node has is its interconnect.
_INTERCONNECTS = ("infiniband", "opa", "ethernet", "other")


class StoredFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """None, or an empty list, is unknown. ``flops`` are of one processor, as the agent's short benchmark measures."""

    system: str | None = None
    cores: int | None = None
    processors: int | None = None
    memory_bytes: int | None = None
    storage_bytes: int | None = None
    flops: float | None = None
    interconnect: str | None = None
    compilers: list[str] = []
    libraries: list[str] = []

    def for_requirements(self) -> MachineFacts:
        """The part that hard requirements ask for."""
        return MachineFacts(
            self.system,
            self.memory_bytes,
            self.storage_bytes,
            self.interconnect,
            frozenset(self.compilers),
            frozenset(self.libraries),
        )


UNKNOWN = StoredFacts()
_decode = msgspec.json.Decoder(StoredFacts).decode
_encode = msgspec.json.Encoder().encode


def facts_of_node(cpus: int, memory_total_bytes: int | None, interfaces: str, machine: str | None) -> StoredFacts:
    """The facts from the columns of ``nodes``; ``machine`` is None of an agent that does not describe its machine."""
    own: dict[str, Any] = {} if machine is None else json.loads(machine)
    kinds = {interface["kind"] for interface in json.loads(interfaces)}
    return StoredFacts(
        system=own.get("system"),
        cores=own.get("cores"),
        processors=cpus,
        memory_bytes=memory_total_bytes,
        storage_bytes=own.get("storage_bytes"),
        flops=own.get("benchmark_flops"),
        interconnect=next((kind for kind in _INTERCONNECTS if kind in kinds), None),
        compilers=own.get("compilers", []),
        libraries=own.get("libraries", []),
    )


def installation_of(machine: str | None) -> str | None:
    """The digest that a reinstallation changes."""
    found = None if machine is None else json.loads(machine).get("id")
    return found if isinstance(found, str) else None


def dump_facts(facts: StoredFacts) -> str:
    return _encode(facts).decode()


def load_facts(text: str) -> StoredFacts:
    return _decode(text)
