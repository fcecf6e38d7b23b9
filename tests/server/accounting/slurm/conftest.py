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

RELEASES = ("22.05", "23.02", "23.11")


class Release:
    """The shapes of one release; others since 23.11 write the same."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.typed = name != "22.05"

    def number(self, value: int | None) -> Any:
        if not self.typed:
            return value
        return {"set": value is not None, "infinite": False, "number": value or 0}

    def state(self, *states: str) -> Any:
        return list(states) if self.name == "23.11" else states[0]

    def exit_code(self, code: int = 0, signal: int = 0) -> dict[str, Any]:
        status = "SIGNALED" if signal else "ERROR" if code else "SUCCESS"
        if self.name == "23.11":
            found = {"id": self.number(signal or None), "name": ""}
            return {"status": [status], "return_code": self.number(None if signal else code), "signal": found}
        if not signal:
            return {"status": status, "return_code": code}
        return {"status": status, "return_code": None, "signal": {"signal_id": signal, "name": "x"}}

    def step(
        self,
        step_id: str,
        start: int,
        end: int,
        memory: int = 0,
        cpu_s: float = 0.0,
        state: str = "COMPLETED",
        exit_code: tuple[int, int] = (0, 0),
        tasks: int = 1,
        least: int | None = None,
    ) -> dict[str, Any]:
        """``memory`` of all tasks, ``least`` of the one that held least: by default all held as much."""
        ids: dict[str, Any] = {
            "22.05": {"job_id": 7, "id": int(step_id) if step_id.isdigit() else step_id},
            "23.02": {"id": {"job_id": 7, "step_id": step_id}},
            "23.11": {"id": f"7.{step_id}"},
        }
        later = self.name == "23.11"
        total = [{"type": "mem", "name": "", "id": 2, "count": memory}] if memory else []
        smallest = [{**one, "count": memory // tasks if least is None else least} for one in total]
        return {
            "time": {
                "elapsed": end - start,
                "start": self.number(start) if later else start,
                "end": self.number(end) if later else end,
                "suspended": 0,
                "total": {"seconds": int(cpu_s), "microseconds": round((cpu_s - int(cpu_s)) * 1e6)},
            },
            "exit_code": self.exit_code(*exit_code),
            "state": self.state(state),
            "step": {**ids[self.name], "name": "x"},
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
            "derived_exit_code": self.exit_code(*changed.get("derived", (0, 0))),
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
            "exit_code": self.exit_code(*changed.get("exit_code", (0, 0))),
            "comment": {"administrator": changed.get("comment"), "job": None, "system": None},
            "group": "hpc",
            "het": {"job_id": 0, "job_offset": self.number(None)},
            "job_id": changed.get("job_id", 7),
            "name": changed.get("name", 'odd|name "q"\n{"account":1},{"account":'),
            "nodes": changed.get("nodes", "n[01-02]"),
            "partition": "batch",
            "required": {"CPUs": 4},
            "state": {"current": self.state(*changed.get("state", ("COMPLETED",))), "reason": "None"},
            "steps": changed.get("steps", [self.step("batch", NOON, NOON + 100, 10 * MIB, 1.5)]),
            "tres": {"allocated": changed.get("allocated", tres), "requested": changed.get("requested", tres)},
            "user": changed.get("user", "ann"),
        }

    def document(self, *jobs: dict[str, Any], indent: int | None = 2) -> bytes:
        meta = {"Slurm": {"release": self.name}, "command": []}
        if self.name == "23.11":
            found: dict[str, Any] = {"jobs": jobs, "meta": meta, "errors": [], "warnings": []}
        else:
            found = {"meta": meta, "errors": [], "jobs": jobs}
        return json.dumps(found, indent=indent).encode()


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> Release:
    return Release(request.param)


@pytest.fixture
def newest() -> Release:
    return Release("23.11")


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
