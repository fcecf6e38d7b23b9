"""Jobs as releases of Slurm write them, and what is read from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobsight_server.accounting.files import Content
from jobsight_server.accounting.formats import open_reader
from jobsight_server.accounting.runs import AccountingError, JobEvent

NOON = 1_700_000_000
MIB = 2**20


class Release:
    """The shapes of 23.11 and later releases; golden logs have the others, too."""

    def number(self, value: int | None) -> Any:
        return {"set": value is not None, "infinite": False, "number": value or 0}

    def exit_code(self, code: int = 0) -> dict[str, Any]:
        found = {"id": self.number(None), "name": ""}
        return {"status": ["ERROR" if code else "SUCCESS"], "return_code": self.number(code), "signal": found}

    def step(self, step_id: str, start: int, end: int, memory: int = 0, cpu_s: float = 0.0, tasks: int = 1) -> Any:
        """``memory`` of all tasks, each of which held as much."""
        total = [{"type": "mem", "name": "", "id": 2, "count": memory}] if memory else []
        smallest = [{**one, "count": memory // tasks} for one in total]
        return {
            "time": {
                "elapsed": end - start,
                "start": self.number(start),
                "end": self.number(end),
                "suspended": 0,
                "total": {"seconds": int(cpu_s), "microseconds": round((cpu_s - int(cpu_s)) * 1e6)},
            },
            "exit_code": self.exit_code(),
            "state": ["COMPLETED"],
            "step": {"id": f"7.{step_id}", "name": "x"},
            "tasks": {"count": tasks},
            "tres": {"requested": {"max": [], "min": smallest, "total": total}, "consumed": {"max": [], "total": []}},
        }

    def job(self, **changed: Any) -> dict[str, Any]:
        """A job of 4 processors on two nodes that ran for 100 s; keyword arguments replace its parts."""
        start, end = changed.get("start", NOON), changed.get("end", NOON + 100)
        tres = [{"type": "cpu", "count": 4}, {"type": "mem", "count": 1200}, {"type": "node", "count": 2}]
        return {
            "account": "physics",
            "array": {"job_id": 0, "task_id": self.number(None)},
            "association": {"account": "physics", "cluster": "lab", "user": "ann"},
            "derived_exit_code": self.exit_code(),
            "time": {
                "elapsed": changed.get("elapsed", (end - start) if start and end else 0),
                "eligible": NOON - 60,
                "start": start,
                "end": end,
                "submission": changed.get("submission", NOON - 60),
                "suspended": changed.get("suspended", 0),
                "limit": self.number(changed.get("limit", 5)),
                "total": {"seconds": 0, "microseconds": 0},
            },
            "exit_code": self.exit_code(),
            "comment": {"administrator": changed.get("comment"), "job": None, "system": None},
            "group": "hpc",
            "het": {"job_id": 0, "job_offset": self.number(None)},
            "job_id": changed.get("job_id", 7),
            "name": changed.get("name", 'odd|name "q"\n{"account":1},{"account":'),
            "nodes": changed.get("nodes", "n[01-02]"),
            "partition": "batch",
            "required": {"CPUs": 4},
            "state": {"current": [*changed.get("state", ("COMPLETED",))], "reason": "None"},
            "steps": changed.get("steps", [self.step("batch", NOON, NOON + 100, 10 * MIB, 1.5)]),
            "tres": {"allocated": changed.get("allocated", tres), "requested": changed.get("requested", tres)},
            "user": changed.get("user", "ann"),
        }

    def document(self, *jobs: dict[str, Any], indent: int | None = 2) -> bytes:
        found = {"jobs": jobs, "meta": {"Slurm": {"release": "23.11"}, "command": []}, "errors": [], "warnings": []}
        return json.dumps(found, indent=indent).encode()


@pytest.fixture
def newest() -> Release:
    return Release()


Found = list[JobEvent | str]


def read_events(file: Path) -> Found:
    """The events in a file, and the reasons of what is rejected."""
    found: Found = []
    with Content(file) as content:
        reader = open_reader("slurm", content)
        size = 0
        for chunk in reader.split(content.read, most_records=3):
            size += chunk.length
            for record in chunk.records:
                try:
                    found.append(reader.event(record))
                except AccountingError as error:
                    found.append(error.reason)
        assert size == content.raw_position or content.packed
    return found


@pytest.fixture
def events(tmp_path: Path) -> Callable[[bytes], Found]:
    def read(data: bytes) -> Found:
        file = tmp_path / "sacct"
        file.write_bytes(data)
        return read_events(file)

    return read
