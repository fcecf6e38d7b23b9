"""Decoding: accepted batches, and rejected ones with their messages."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import make

from jobsight_server.ingest.wire import WireError, decode

GOLDEN = (Path(__file__).parents[2] / "golden" / "batch.json").read_bytes()

GOLDEN_JOBS = (Path(__file__).parents[2] / "golden" / "batch-jobs.json").read_bytes()


def test_golden_batch() -> None:
    batch = decode(GOLDEN)
    assert (batch.cluster, batch.node, batch.sequence) == ("alpha", "n001", 1700000000)
    assert batch.interfaces[1].kind == "infiniband"
    assert batch.bytes_in[1] == [400, 800, 1200, None]
    assert batch.memory_used_bytes[2] is None
    assert batch.marks[0].job == "4711.server"
    assert batch.agent.metrics_missed == {"memory": 1}


def test_golden_batch_with_jobs() -> None:
    first, second = decode(GOLDEN_JOBS).jobs
    assert (first.job, first.index, first.cpu_s) == ("4711.server", [1, 2, 3], [40.0, 44.25, 51.5])
    assert (first.anon_bytes[1], first.shmem_bytes[1], first.anon_bytes[2]) == (310_000_000, 20_000_000, None)
    assert (first.file_bytes[0], first.charged_bytes[1], first.peak_bytes) == (
        500_000_000,
        1_240_000_000,
        1_300_000_000,
    )
    assert (second.job, second.index, second.peak_bytes) == ("4712[3].server", [3], None)
    assert decode(GOLDEN).jobs == []
    assert decode(GOLDEN_JOBS).boottime_s == [86400.0, 86410.0, 86417.25, 86420.0]
    assert decode(GOLDEN_JOBS).uncounted == ["qedr0/1"]
    assert (decode(GOLDEN).boottime_s, decode(GOLDEN).uncounted) == (None, [])
    with pytest.raises(WireError, match="boottime_s has 1 values for 4 times"):
        decode(make.batch(boottime_s=[1.0]))
    with pytest.raises(WireError, match="length >= 1"):
        decode(make.batch(uncounted=[""]))


def test_gpus_of_a_batch_have_a_value_for_each_reading() -> None:
    (gpu,) = decode(GOLDEN_JOBS).gpus
    assert (gpu.gpu, gpu.total_bytes) == ("card1", 68_702_699_520)
    assert (gpu.busy_percent, gpu.used_bytes[3]) == ([0, 95, None, 100], None)
    fine = {"gpu": "card0", "busy_percent": [0] * 4, "used_bytes": [1] * 4}
    for wrong, reason in (
        ([fine] * 2, "two gpus"), ([{**fine, "gpu": ""}], "length >= 1"), ([{**fine, "gpu": "a\0"}], "NUL"),
        ([{**fine, "busy_percent": [101] * 4}], "<= 100"), ([{**fine, "busy_percent": [-1] * 4}], ">= 0"),
        ([{**fine, "busy_percent": [1]}], "busy_percent of card0 has 1 values for 4 times"),
        ([{**fine, "used_bytes": []}], "used_bytes of card0 has 0 values for 4 times"),
        ([{**fine, "used_bytes": [2**63] * 4}], "<="),
        ([{**fine, "gpu": f"card{n}"} for n in range(17)], "length <= 16"),
    ):  # fmt: skip
        with pytest.raises(WireError, match=reason):
            decode(make.batch(gpus=wrong))


def a_job(**changes: Any) -> dict[str, Any]:
    columns = {name: [1, 2] for name in ("cpu_s", "anon_bytes", "shmem_bytes", "file_bytes", "charged_bytes")}
    return {"job": "1", "index": [0, 1], **columns, **changes}


@pytest.mark.parametrize(
    ("jobs", "reason"),
    [
        ([a_job(job="")], "length >= 1"),
        ([a_job(job="1" * 256)], "length <= 255"),
        ([a_job(job=5)], "Expected `str`"),
        ([a_job(job="1\n2")], "not a job id"),
        ([a_job(), a_job()], "same id"),
        ([a_job(index=[])], "length >= 1"),
        ([a_job(index=[1, 1])], "index of job '1': it must rise"),
        ([a_job(index=[3, 4])], "stay below 4"),
        ([a_job(index=[0, -1])], ">= 0"),
        ([a_job(cpu_s=[1])], "cpu_s of job '1' has 1 values for 2 readings"),
        ([a_job(cpu_s=[1, -1])], ">= 0"),
        ([a_job(cpu_s=[1, 1e16])], "<= 1"),
        ([a_job(cpu_s=[1, float("nan")])], "invalid"),
        ([a_job(anon_bytes=[1, 2**63])], "<= 9223372036854775807"),
        ([a_job(file_bytes=[1.5, 2])], "Expected `int"),
        ([a_job(peak_bytes=-1)], ">= 0"),
        ([a_job(job=str(number)) for number in range(4001)], "length <= 4000"),
    ],
)
def test_wrong_jobs_are_named(jobs: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(WireError, match=reason.replace("(", r"\(")):
        decode(make.batch(format=2, jobs=jobs))


@pytest.mark.exhaustive
def test_a_hundred_thousand_jobs_are_refused_before_they_take_memory() -> None:
    payload = make.batch(format=2, jobs=[a_job(job=str(number)) for number in range(100_000)])
    with pytest.raises(WireError, match="no batch has that many values"):
        decode(payload)
    long = list(range(4000))
    columns = dict.fromkeys(("cpu_s", "anon_bytes", "shmem_bytes", "file_bytes", "charged_bytes"), long)
    column = [[1] * 4000] * 2
    many = make.batch(
        format=2, time=[1e9 + i for i in long], bytes_in=column, bytes_out=column, memory_used_bytes=[1] * 4000,
        cpu_busy_s=[1] * 4000, jobs=[a_job(job=str(number), index=long, **columns) for number in range(26)],
    )  # fmt: skip
    with pytest.raises(WireError, match="more than 100000 readings of jobs"):
        decode(many)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 3}, "format"),
        ({"jobs": [a_job()]}, "format 1 has no jobs"),
        ({"cluster": ""}, "length >= 1"),
        ({"cluster": "x" * 256}, "length <= 255"),
        ({"cluster": "a\x00b"}, "NUL"),
        ({"sequence": -1}, ">= 0"),
        ({"cpus": "16"}, "Expected `int`"),
        ({"time": []}, "length >= 1"),
        ({"time": [1.0, 2.0, 2.0, 3.0]}, "time must rise: position 2 holds 2.0"),
        ({"time": [-5.0, 2.0, 3.0, 4.0]}, "time must rise: position 0"),
        ({"bytes_in": [[1, 2, 3, 4]]}, "bytes_in has 1 columns for 2 interfaces"),
        ({"memory_used_bytes": [1, 2]}, "memory_used_bytes has 2 values for 4 times"),
        ({"memory_used_bytes": [1, 2, 3, -4]}, ">= 0"),
        ({"bytes_out": [[0, 0, 0, 0], [0, 0, 40, 2**34]]}, "does not fit a 32-bit counter"),
        ({"bytes_out": [[0, 0, 0, 2**64], [0, 0, 40, 1]]}, "does not fit a 64-bit counter"),
        ({"bytes_in": [[0, 0, 0, -1], [0, 0, 40, 1]]}, ">= 0"),
        ({"marks": [{"index": 4, "job": "1", "event": "end"}]}, "points to reading 4 of 4"),
        ({"marks": [{"index": 0, "job": "1", "event": "pause"}]}, "Invalid enum value"),
        ({"interfaces": [{"name": "a", "kind": "ethernet", "width_bits": 64}] * 2}, "same name"),
        ({"interfaces": [{"name": "a", "kind": "token ring", "width_bits": 64}]}, "Invalid enum value"),
    ],
)
def test_wrong_content_is_named(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(WireError, match=reason.replace("(", r"\(")):
        decode(make.batch(**changes))


@pytest.mark.parametrize(
    "twice", ['"sequence": 1', '"machine": {"id": "a", "\\u0069d": "b"}', '"later": [{"id": 1, "id": 1}]']
)
def test_a_field_that_is_given_twice_is_named(twice: str) -> None:
    with pytest.raises(WireError, match=r"the field '(sequence|id)' is given twice"):
        decode(f"{{{twice}, {GOLDEN.decode()[1:]}".encode())


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999"])
def test_no_number_but_a_finite_one(text: str) -> None:
    with pytest.raises(WireError):
        decode(GOLDEN.replace(b"118.25", text.encode()))


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_any_one_field_replaced_by_anything(data: st.DataObject) -> None:
    batch = json.loads(GOLDEN)
    name = data.draw(st.sampled_from(sorted(batch)))
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )
    batch[name] = data.draw(anything)
    with suppress(WireError):
        assert len(decode(json.dumps(batch).encode()).time) > 0
