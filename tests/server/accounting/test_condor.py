"""What ``condor_history`` prints: pretty, by line, and by other programs; and what its attributes mean."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.server.accounting.conftest import rows

from jobsight_server.accounting.formats import reader_of
from jobsight_server.accounting.parsers.condor import parse_ad
from jobsight_server.accounting.read_logs import import_files
from jobsight_server.accounting.runs import AccountingError, RunRecord

LOG = Path(__file__).parents[2] / "golden" / "logs" / "condor-json.log"
START = 1_790_000_000


def run_of(**more: Any) -> RunRecord:
    ad = {"ClusterId": 7, "ProcId": 1, "JobStatus": 4, "Owner": "ann", "QDate": START - 60} | more
    ad = {"JobCurrentStartDate": START, "CompletionDate": START + 600} | ad
    run = parse_ad(json.dumps(ad).encode()).run
    assert run is not None
    return run


def test_one_document_reads_alike_however_it_was_printed() -> None:
    """By condor_history, by jq with and without -c, and by a program that prints the list's commas elsewhere."""
    ads = [{"ClusterId": number, "ProcId": 0, "Nested": {"JobStatus": [{"a": "}"}]}} for number in (1, 2, 3)]
    pretty = [json.dumps(ad, indent=2) for ad in ads]
    forms = [
        "[\n" + "\n,\n".join(pretty) + "\n]\n",
        "[\n" + ",\n".join(pretty) + "\n]",
        json.dumps(ads, indent=2),
        json.dumps(ads, indent="\t") + "\n",
        "\n".join(json.dumps(ad) for ad in ads) + "\n",
        "[\n" + ",\n".join(json.dumps(ad) for ad in ads) + "\n]\n",
        ("[\n" + "\n,\n".join(pretty) + "\n]\n").replace("\n", "\r\n"),
    ]
    for form in forms:
        data = form.encode()
        chunks = list(reader_of("condor", data).split(io.BytesIO(data).read))
        records = [record for chunk in chunks for record in chunk.records]
        assert [json.loads(record.data) for record in records] == ads, form
        assert sum(chunk.length for chunk in chunks) == len(data)


def test_a_damaged_ad_costs_itself_only() -> None:
    """Wherever it is cut, and whatever is between ads."""
    ads = [json.dumps({"ClusterId": number, "ProcId": 0}, indent=2) for number in (1, 2, 3)]
    for cut in range(1, len(ads[1])):
        data = "\n,\n".join([ads[0], ads[1][:cut], ads[2]]).encode() + b"\n"
        records = [each for chunk in reader_of("condor", data).split(io.BytesIO(data).read) for each in chunk.records]
        assert [records[0].data, records[-1].data] == [ads[0].encode(), ads[2].encode()]
        assert len(records) == 3


@pytest.mark.parametrize(
    ("ad", "expected"),
    [
        ({"ResidentSetSize": 1250000, "ResidentSetSize_RAW": 1146884}, 1146884 * 1024),
        ({"residentsetsize_raw": 1146884}, 1146884 * 1024),  # names ignore case
        ({"MemoryUsage": 1221}, None),  # of the rounded size
        ({"MemoryUsage": 1221, "ResidentSetSize": 1250000}, None),
        ({"MemoryUsage": "/Expr((ResidentSetSize + 1023) / 1024)/", "ResidentSetSize": 1146884}, 1146884 * 1024),
        ({"MemoryUsage": "/Expr((ResidentSetSize + 1023) / 1024)/", "ResidentSetSize": 1250000}, None),  # rounded up
        ({"ResidentSetSize": 0, "ResidentSetSize_RAW": 0}, None),
    ],
)
def test_memory_is_exact_or_unknown(ad: dict[str, Any], expected: int | None) -> None:
    assert run_of(**ad).used_memory_bytes == expected


@pytest.mark.parametrize(
    ("data", "why"),
    [(b'[{"ClusterId":1,"ProcId":0}]', "a list on one line"), (b'<?xml version="1.0"?>', "not a ClassAd in JSON")],
)
def test_what_is_no_ad_is_not_taken_for_one_that_is_cut_off(data: bytes, why: str) -> None:
    reader = reader_of("condor", data)
    (record,) = [each for chunk in reader.split(io.BytesIO(data).read) for each in chunk.records]
    with pytest.raises(AccountingError, match=why):
        reader.event(record)


@pytest.mark.parametrize(
    ("ad", "failure", "ran_s"),
    [
        ({"LastHoldReasonCode": 34, "LastHoldReasonSubCode": 102}, None, 600.0),  # released, and completed since
        ({"HoldReasonCode": 34, "HoldReasonSubCode": 102, "RemoteWallClockTime": 400}, "memory", 400.0),
        ({"HoldReasonCode": 21, "HoldReasonSubCode": 102, "RemoteWallClockTime": 400}, "memory", 400.0),
        ({"HoldReasonCode": 34, "HoldReasonSubCode": 104, "RemoteWallClockTime": 400}, None, 400.0),  # of disk
        ({"HoldReasonCode": 46, "RemoteWallClockTime": 400}, "time", 400.0),
        ({"HoldReasonCode": 1, "RemoteWallClockTime": 400, "NumJobStarts": 1}, None, 400.0),
        # Of three runs 4,000 s are the sum.
        ({"HoldReasonCode": 1, "RemoteWallClockTime": 4000, "NumJobStarts": 3}, None, 9000.0),
        ({"RemoteWallClockTime": 4000, "LastRemoteWallClockTime": 50, "NumJobStarts": 3}, None, 50.0),
    ],
)
def test_how_a_job_ended(ad: dict[str, Any], failure: str | None, ran_s: float) -> None:
    removed = {"JobStatus": 3, "CompletionDate": 0, "EnteredCurrentStatus": START + 9000}
    run = run_of(**({} if "LastHoldReasonCode" in ad else removed), **ad)
    assert (run.failure, run.used_walltime_s) == (failure, ran_s)


def test_requests_are_numbers_or_what_the_slot_gave() -> None:
    run = run_of(RequestMemory="/Expr(1024 * RequestCpus)/", MemoryProvisioned=2560, RequestCpus=2, CpusProvisioned=4)
    assert (run.requested_memory_bytes, run.processors, run.asked_processors) == (2560 * 2**20, 4, 2)
    assert run_of(RequestMemory=2048, MemoryProvisioned=2560).requested_memory_bytes == 2**31
    assert run_of().requested_memory_bytes is None


def test_memory_of_several_gpus_is_unknown() -> None:
    assert run_of(RequestGPUs=1, GPUsMemoryUsage=2).used == '{"gpu_memory":2097152.0}'
    assert run_of(RequestGPUs=2, GPUsMemoryUsage=2).used is None


def test_a_history_is_imported_once_and_counted(sqlite_engine: Engine) -> None:
    report = import_files(sqlite_engine, [LOG], "c", lambda: 1.9e9, "condor")
    figures = report.figures
    assert (figures.records["E"], figures.records["N"], figures.records["local"]) == (5, 1, 1)
    assert (figures.rejected.total(), figures.lost_without_reason, len(figures.runs)) == (5, 0, 5)
    before = rows(sqlite_engine, "job_id", "failure", "gpus")
    assert before[1:3] == [("3472943.0", "memory", None), ("3472946.0", None, 1)]
    again = import_files(sqlite_engine, [LOG], "c", lambda: 2.0e9, "condor")
    assert (again.new_runs, rows(sqlite_engine, "job_id", "failure", "gpus")) == (0, before)
