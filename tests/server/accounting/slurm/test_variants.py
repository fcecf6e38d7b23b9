"""Text of sacct in the forms of many sites and releases: requests, use and output do not depend on the form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.server.accounting.conftest import rows
from tests.server.accounting.slurm.conftest import MIB, NOON
from tests.server.accounting.slurm.test_text import text

from jobsight_server.accounting.read_logs import follow_once, import_files
from jobsight_server.queries.job_named import job_clusters
from jobsight_server.settings.declared import AccountingSource

NEEDED = ["JobIDRaw", "User", "State", "Submit", "Start", "End", "NodeList"]
HEADERS = (Path(__file__).parents[3] / "golden" / "logs" / "slurm-headers.log").read_bytes()


def job(number: int = 7, **more: Any) -> dict[str, str]:
    times = {"Submit": f"{NOON - 60}", "Start": f"{NOON}", "End": f"{NOON + 100}"}
    return {"JobIDRaw": f"{number}", "User": "ann", "State": "COMPLETED", "NodeList": "n1", **times, **more}


def test_a_file_that_grows_below_another_header(sqlite_engine: Engine, tmp_path: Path) -> None:
    file, whole = tmp_path / "log", HEADERS.partition(b"\n5|")[0] + b"\n"
    source = AccountingSource("lab", file=file, format="slurm")
    for end in (len(whole) // 3, len(whole) * 3 // 4, len(whole) - 5, len(whole)):
        file.write_bytes(whole[:end])
        assert follow_once(sqlite_engine, source, lambda: 1.8e9).rejected.total() == 0
    assert rows(sqlite_engine, "used_memory_bytes", "requested_memory_bytes") == [(500 * MIB, 64 * 2**30)] * 4


def test_a_failed_node_ends_a_job_unless_it_is_submitted_again(sqlite_engine: Engine, tmp_path: Path) -> None:
    again = {"Submit": f"{NOON + 100}", "Start": f"{NOON + 200}", "End": f"{NOON + 300}"}
    for number, row in enumerate([job(1, State="NODE_FAIL"), job(2, State="PREEMPTED"), job(2, **again)]):
        file = tmp_path / f"{number}"
        file.write_bytes(text(row, columns=NEEDED))
        import_files(sqlite_engine, [file], "lab", lambda: 1.8e9, "slurm")
    assert rows(sqlite_engine, "job_id", "state") == [("1", "ended"), ("2", "requeued"), ("2", "ended")]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_part_of_a_heterogeneous_job_is_found_by_the_id_that_sacct_prints(
    sqlite_engine: Engine, tmp_path: Path, newest: Any, form: str
) -> None:
    file, part = tmp_path / "log", newest.job(job_id=72)
    part["het"] = {"job_id": 71, "job_offset": {"set": True, "infinite": False, "number": 1}}
    row = job(72, JobID="71+1")
    file.write_bytes(newest.document(part) if form == "json" else text(row, columns=list(row)))
    import_files(sqlite_engine, [file], "lab", lambda: 1.8e9, "slurm")
    with sqlite_engine.connect() as connection:
        assert [job_clusters(connection, job_id) for job_id in ("71+1", "72", "71+2")] == [["lab"], ["lab"], []]
