"""Requests in the words of Slurm and PBS: the meaning of each, and no text is misread or raises."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import not_none

from jobsight_server.advice.recommendation import JobRequest
from jobsight_server.advice.scheduler_words import (
    AMOUNT_AT_MOST,
    PbsRequest,
    RequestError,
    SlurmRequest,
    pbs_advice,
    pbs_request,
    slurm_advice,
    slurm_request,
)

MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, JobRequest(1)),
        ({"nodes": 3}, JobRequest(3, 3)),
        ({"num_tasks": 2, "nodes": 3}, JobRequest(3, 3)),
        ({"num_tasks": 4, "cpus_per_task": 3, "cpus": 2}, JobRequest(12)),
        ({"num_tasks": 1, "cpus": 8}, JobRequest(8)),
        ({"nodes": 2, "mem": 100}, JobRequest(2, 2, 200 * MIB)),
        ({"mem": "100"}, JobRequest(1, None, 100 * MIB)),
        ({"mem": 2**30}, JobRequest(1, None, 2**50)),
        ({"num_tasks": 4, "mem": "0", "mem_per_cpu": "1G"}, JobRequest(4, None, 4 * GIB)),
        ({"time_limit": 0}, JobRequest(1)),
        ({"time_limit": "0:00"}, JobRequest(1)),
        ({"time_limit": 90}, JobRequest(1, None, None, 5400)),
        ({"time_limit": "90"}, JobRequest(1, None, None, 5400)),
        ({"time_limit": "90:30"}, JobRequest(1, None, None, 5430)),
        ({"time_limit": "1:30:30"}, JobRequest(1, None, None, 5430)),
        ({"time_limit": "1-2"}, JobRequest(1, None, None, 26 * 3600)),
        ({"time_limit": "1-2:03"}, JobRequest(1, None, None, 26 * 3600 + 180)),
        ({"time_limit": "1-2:03:04"}, JobRequest(1, None, None, 26 * 3600 + 184)),
    ],
)
def test_slurms_words(asked: dict[str, object], expected: JobRequest) -> None:
    assert slurm_request(SlurmRequest(**asked)) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, JobRequest(1)),
        ({"select": "3"}, JobRequest(3, 3)),
        ({"select": "2:ncpus=8:mem=8gb:ngpus=1"}, JobRequest(16, 2, 16 * GIB)),
        ({"select": "ncpus=8+2:ncpus=1:mem=512mb"}, JobRequest(10, 3, GIB)),
        ({"select": "2:ncpus=2", "mem": "5gb", "ncpus": "99"}, JobRequest(4, 2, 5 * GIB)),
        ({"nodes": "n7:ppn=4+2:ppn=8:fast"}, JobRequest(20, 3)),
        ({"nodes": "4", "procs": "9"}, JobRequest(9, 4)),
        ({"ncpus": "4", "pmem": "1gb", "walltime": "100:00"}, JobRequest(4, None, 4 * GIB, 6000)),
        ({"mem": "2w", "walltime": "1:00:00:00"}, JobRequest(1, None, 16, 86400)),
        ({"mem": "unlimited", "walltime": "unlimited"}, JobRequest(1)),
    ],
)
def test_the_words_of_pbs(asked: dict[str, str], expected: JobRequest) -> None:
    assert pbs_request(PbsRequest(**asked)) == expected


amounts = st.one_of(
    st.floats(allow_nan=False), st.text(max_size=12), st.from_regex(r"\A[0-9]{1,20}[KMGTkbw:-]{0,2}[0-9]{0,3}\Z")
)
counts = st.one_of(st.none(), st.floats(allow_nan=False), st.integers(0, 2**33).map(float))
words = st.text("0123456789:=+,-abcmnpgutw ", max_size=30)


def is_sound(request: JobRequest) -> bool:
    sums = (request.memory_bytes, request.walltime_s)
    return 1 <= (request.nodes or 1) <= request.processors <= 10**9 and all(
        value is None or (0 < value <= AMOUNT_AT_MOST and math.isfinite(value)) for value in sums
    )


@given(st.fixed_dictionaries(dict.fromkeys(("num_tasks", "cpus_per_task", "nodes", "cpus"), counts)), amounts, amounts)
@settings(max_examples=100)
def test_any_request_of_slurm_is_read_or_refused(count: dict[str, float], memory: object, limit: object) -> None:
    asked = msgspec.convert({**count, "mem": memory, "time_limit": limit}, SlurmRequest)
    try:
        request = slurm_request(asked)
    except RequestError:
        return
    assert is_sound(request)
    advice = slurm_advice(request, request.memory_bytes, request.walltime_s)
    if request.memory_bytes is not None:
        assert not_none(advice.mem) * MIB * (request.nodes or 1) >= request.memory_bytes * (1 - 1e-9)


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("select", "nodes", "ncpus", "mem", "pmem", "walltime"), words))
)
@settings(max_examples=100)
def test_any_request_of_pbs_is_read_or_refused(asked: dict[str, str]) -> None:
    words = PbsRequest(**asked)
    try:
        request = pbs_request(words)
    except RequestError:
        return
    assert is_sound(request)
    advice = pbs_advice(words, request, 5 * GIB, 5000.0)
    assert advice.walltime == "01:24:00"
    if advice.select is not None:
        again = pbs_request(PbsRequest(select=advice.select))
        assert again.processors == request.processors
        assert not_none(again.memory_bytes) >= 5 * GIB * (1 - 1e-9)
