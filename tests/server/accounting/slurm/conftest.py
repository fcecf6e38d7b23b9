"""Jobs in the forms of Slurm's releases, and the events read from them."""

from __future__ import annotations

import copy
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


JOB = json.loads((Path(__file__).parents[3] / "golden" / "slurm-job.json").read_text())
"""A job of 4 processors on two nodes that ran for 100 s."""


class Release:
    """Records as 23.11 and later releases write them; golden logs have those of others, too."""

    def step(self, step_id: str, start: int, end: int, memory: int, cpu_s: float = 0.0, tasks: int = 1) -> Any:
        """``memory`` of all tasks, each of which held as much."""
        found = copy.deepcopy(JOB["steps"][0])
        found["step"]["id"], found["tasks"]["count"] = f"7.{step_id}", tasks
        found["time"]["total"] = {"seconds": int(cpu_s), "microseconds": round(cpu_s % 1 * 1e6)}
        for name, value in (("start", start), ("end", end)):
            found["time"][name]["number"] = value
        for name, value in (("total", memory), ("min", memory // tasks)):
            found["tres"]["requested"][name][0]["count"] = value
        return found

    def job(self, **changed: Any) -> dict[str, Any]:
        """The job with some of its parts replaced."""
        found = copy.deepcopy(JOB)
        found["comment"]["administrator"] = changed.pop("comment", None)
        found["state"]["current"] = [*changed.pop("state", ("COMPLETED",))]
        found["time"]["limit"]["number"] = changed.pop("limit", 5)
        for part in (found["time"], found["tres"]):
            part |= {name: changed.pop(name) for name in (*part,) if name in changed}
        start, end = found["time"]["start"], found["time"]["end"]
        found["time"]["elapsed"] = end - start if start and end else 0
        return {**found, **changed}

    def document(self, *jobs: dict[str, Any], indent: int | None = 2) -> bytes:
        found = {"jobs": jobs, "meta": {"Slurm": {"release": "23.11"}, "command": []}, "errors": [], "warnings": []}
        return json.dumps(found, indent=indent).encode()


@pytest.fixture
def newest() -> Release:
    return Release()


TEXT_JOB = {
    "JobIDRaw": "7", "JobID": "7", "User": "ann", "State": "COMPLETED", "ExitCode": "0:0", "Submit": f"{NOON - 60}",
    "Eligible": f"{NOON - 60}", "Start": f"{NOON}", "End": f"{NOON + 100}", "Suspended": "00:00:00",
    "TimelimitRaw": "5", "ReqMem": "1200M", "ReqTRES": "cpu=4,mem=1200M,node=2", "AllocTRES": "cpu=4,mem=1200M,node=2",
    "NodeList": "n[1-2]", "TotalCPU": "00:50.123", "SubmitLine": "sbatch job.sh", "TRESUsageInTot": "",
    "TRESUsageInMin": "", "SLUID": "s5K1KKYAYG5D00", "NTasks": "",
}  # fmt: skip


def text_of_sacct(*jobs: dict[str, str]) -> bytes:
    """Return a header and a row for each job, which is ``TEXT_JOB`` with these columns.

    ``memory``: that of its batch step, which has a row then.
    """
    rows = ["\x1f".join(TEXT_JOB)]
    for job in jobs:
        memory = job.pop("memory", "")
        whole = {**TEXT_JOB, **job}
        rows.append("\x1f".join(whole.values()))
        if memory:
            used = {"JobIDRaw": f"{whole['JobIDRaw']}.batch", "TRESUsageInTot": f"mem={memory}", "ReqTRES": ""}
            rows.append("\x1f".join({**whole, **used, "NTasks": "1"}.values()))
    return "\n".join([*rows, ""]).encode()


Found = list[JobEvent | str]


def read_events(file: Path) -> Found:
    """Read the events in a file, and the reasons of rejects."""
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
