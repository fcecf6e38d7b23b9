from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_server.accounting.parsers.pbs import processors_by_node
from jobsight_server.accounting.parsers.quantities import LARGEST_BYTES
from jobsight_server.accounting.parsers.torque import parse_line
from jobsight_server.accounting.runs import AccountingError, JobEvent, RunRecord

IDENTITY = "user=ann group=staff"
TIMES = "ctime=1315413989 qtime=1315413990 etime=0 start=1315415070"
E_LINE = (
    "09/08/2011 00:02:21;E;5193311.firefly.example;user=user001 group=group001 jobname=app001 queue=queue001 "
    "ctime=1315413989 qtime=1315413990 etime=1315413991 start=1315415070 owner=user001@login.firefly.example "
    "exec_host=node001/6 Resource_List.neednodes=1 Resource_List.nodect=1 Resource_List.nodes=1 "
    "Resource_List.pvmem=1500mb Resource_List.walltime=24:00:00 session=29471 end=1315458141 Exit_status=0 "
    "resources_used.cput=11:49:08 resources_used.mem=968576kb resources_used.vmem=1194372kb "
    "resources_used.walltime=11:57:51"
)


def run_of(message: str, kind: str = "E", job_id: str = "7.s") -> RunRecord:
    event = parse_line(f"09/08/2011 00:02:21;{kind};{job_id};{message}")
    assert event.run is not None
    return event.run


def test_a_job_of_more_processors_than_any_machine_has_is_refused() -> None:
    with pytest.raises(AccountingError, match="more than 10000000"):
        processors_by_node("+".join(f"n{i}/0-65535" for i in range(153)))


def _stored_values_fit(event: JobEvent) -> None:
    run = event.run
    if run is None:
        return
    assert 0 < len(run.user) <= 255
    assert 0 < run.start < 2**33
    assert run.end is None or run.start <= run.end < 2**33
    assert (run.processors or 0) < 2**31
    assert all(0 < processors < 2**31 for _, processors in run.nodes)
    for size in (run.used_memory_bytes, run.requested_memory_bytes):
        assert size is None or 0 <= size <= LARGEST_BYTES


@settings(deadline=None, max_examples=500)
@given(
    st.randoms(use_true_random=False),
    st.lists(
        st.one_of(st.text(max_size=4), st.sampled_from(["=", ";", " ", "start=", "/", "-", "*9", "99999"])), max_size=5
    ),
)
def test_nor_of_lines_that_almost_are_records(rng: random.Random, pieces: list[str]) -> None:
    line = E_LINE
    for piece in pieces:
        first = rng.randrange(len(line) + 1)
        line = line[:first] + piece + line[first + rng.randrange(12) :]
    try:
        event = parse_line(line)
    except AccountingError:
        return
    _stored_values_fit(event)


@settings(deadline=None, max_examples=200)
@given(
    st.text(st.characters(min_codepoint=33, exclude_categories=["Cc", "Cs", "Z"]), min_size=1, max_size=40),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40),
)
def test_whatever_the_job_and_the_account_are_called_the_numbers_stay(name: str, account: str) -> None:
    run = run_of(
        f"{IDENTITY} account={account} jobname={name} queue=batch {TIMES} exec_host=n1/0*3 end=1315458141 "
        "resources_used.mem=5kb"
    )
    assert (run.user, run.start, run.end, run.processors, run.used_memory_bytes) == (
        "ann",
        1315415070.0,
        1315458141.0,
        3,
        5120,
    )
    assert run.name == name
