"""Traces: faults are counted, what is written reads back, the canonical form has the published counts."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.traces import trace

from jobsight_scheduler.workload.canonical import canonical
from jobsight_scheduler.workload.swf import FIELDS, TraceError, parse_swf, read_swf, write_swf

LINES = [
    "; Version: 2.2",
    ";   MaxProcs: 8  ",
    "",
    " 1 100 5 60 4 1.5 2048 4 120 -1 1 7 1 3 1 -1 -1 -1",
    "2 50 0 30 8 -1 -1 -1 -1 -1 1 7 1 3 1 -1 -1 -1",
    "3 200 0 -1 2 -1 -1 2 10 -1 0 8 1 3 1 -1 -1 -1",
    "4 210 0 90 2 -1 -1 2 60 -1 1 8 1 3 1 -1 -1 -1",
    "5 220 0 10 9",
    "6 230 0 nan 1 -1 -1 1 60 -1 1 8 1 3 1 -1 -1 -1",
    "seven is no job",
    "8 9",
]


def test_faults_are_mended_and_counted() -> None:
    trace = parse_swf(LINES)
    assert len(trace) == 6
    assert trace.header == ["Version: 2.2", "MaxProcs: 8"]
    assert trace["cpu_s"][0] == 1.5
    assert trace["user"].tolist() == [7, 7, 8, 8, -1, 8]
    assert trace["run_s"][5] == -1
    assert trace.repairs == {
        "not numbers: left out": 1,
        "fewer than 5 fields: left out": 1,
        "not 18 fields: cut or filled with -1": 1,
        "not finite: taken as unknown": 1,
    }


def test_canonical_form() -> None:
    workload = canonical(parse_swf(LINES), 8)
    assert workload.submit_s.tolist() == [0, 50, 160]  # job 2 was submitted first
    assert workload.run_s.tolist() == [30, 60, 60]
    assert workload.estimate_s.tolist() == [30, 120, 60]
    assert workload.processors.tolist() == [8, 4, 2]
    assert workload.row.tolist() == [1, 0, 3]
    assert workload.counts == {"jobs": 3, "dropped": 3, "clamped": 1, "reordered": 1}
    with pytest.raises(ValueError, match="0 processors"):
        canonical(parse_swf(LINES), 0)


@pytest.mark.parametrize("name", ["trace.swf", "trace.swf.gz"])
def test_what_is_written_reads_back(tmp_path: Path, name: str) -> None:
    trace = parse_swf(LINES)
    write_swf(trace, tmp_path / name)
    again = read_swf(tmp_path / name)
    assert again.header == trace.header
    assert not again.repairs
    for field in FIELDS:
        np.testing.assert_array_equal(again[field], trace[field])


def test_packed_is_what_the_file_is_not_what_it_is_called(tmp_path: Path) -> None:
    data = "\n".join(LINES).encode()
    for name, content in (("trace.swf", gzip.compress(data)), ("trace.swf.gz", data)):
        (tmp_path / name).write_bytes(content)
        assert len(read_swf(tmp_path / name)) == 6


def test_comments_behind_numbers() -> None:
    trace = parse_swf(["; MaxProcs: 64 (32 nodes of 2)", "; MaxProcs: 2,048", "1 0 5 60 4 ; an interactive job"])
    assert (len(trace), trace["processors"][0], trace.max_processors) == (1, 4, 64)
    assert parse_swf(["; MaxProcs: 2,048"]).max_processors is None


def test_a_line_twice_is_one_job() -> None:
    trace = parse_swf(
        [LINES[3], LINES[4], LINES[3], LINES[3], LINES[3].replace(" 60 ", " 61 ", 1), "0 7 0 5 1", "0 7 0 5 1"]
    )
    assert trace["job"].tolist() == [1, 2, 1, 0, 0]
    assert trace.repairs["the same as another line: left out"] == 2
    assert trace.places["the same as another line: left out"] == "line 3: job 1"
    assert [trace.place(row) for row in range(3)] == ["line 1", "line 2", "line 5"]


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.swf.gz"
    file.write_bytes(gzip.compress(b"hello\nworld\n"))
    with pytest.raises(TraceError, match=r"x\.swf\.gz: no job of 18 numbers .* 2 x not numbers"):
        read_swf(file)


@given(st.lists(st.text(alphabet="0123456789-. ;e\tx", max_size=60), max_size=8))
@settings(deadline=None, max_examples=150)
def test_whatever_the_lines_the_columns_are_finite_and_equally_long(lines: list[str]) -> None:
    trace = parse_swf(lines)
    assert all(np.isfinite(trace[name]).all() and len(trace[name]) == len(trace) for name in FIELDS)
    canonical(trace, 10)


@pytest.mark.parametrize(
    ("name", "processors", "jobs", "dropped", "clamped"),
    [
        # The cleaned log lacks the first 14 jobs of the log whose published counts are 28,481, 8 and 475.
        ("KTH-SP2-1996-2.1-cln.swf.gz", 100, 28_467, 9, 475),
        ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, 54_034, 5_681, 4_134),
        ("LANL-CM5-1994-4.1-cln.swf.gz", 1024, 122_055, 5, 40_180),
    ],
)
def test_published_counts_of_real_traces(name: str, processors: int, jobs: int, dropped: int, clamped: int) -> None:
    counts = canonical(read_swf(trace(name)), processors).counts
    assert counts == {"jobs": jobs, "dropped": dropped, "clamped": clamped, "reordered": 0}
