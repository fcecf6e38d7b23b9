from __future__ import annotations

import gzip
import os
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_server.accounting.parsers.pbs import processors_by_node
from jobsight_server.accounting.parsers.quantities import LARGEST_BYTES, duration_s, size_bytes
from jobsight_server.accounting.parsers.torque import parse_line
from jobsight_server.accounting.runs import AccountingError, JobEvent, RunRecord

REAL_DAY = Path(os.environ.get("JOBSIGHT_TRACES", "../shared/traces")).parent / "accounting" / "torque-20110908.gz"
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


def ended(fields: str, identity: str = IDENTITY) -> RunRecord:
    return run_of(f"{identity} {TIMES} end=1315458141 {fields}".replace("  ", " "))


def test_a_whole_end_record() -> None:
    event = parse_line(E_LINE)
    assert (event.kind, event.job_id, event.local_s) == ("E", "5193311.firefly.example", 1315440141.0)
    assert event.run == RunRecord(
        user="user001",
        start=1315415070.0,
        end=1315458141.0,
        group="group001",
        name="app001",
        queue="queue001",
        created=1315413989.0,
        queued=1315413990.0,
        eligible=1315413991.0,
        exec_host="node001/6",
        nodes=(("node001", 1),),
        processors=1,
        exit_status=0,
        requested_walltime_s=86400.0,
        requested_memory_bytes=1500 * 2**20,
        requested_nodes="1",
        used_cpu_s=42548.0,
        used_memory_bytes=968576 * 1024,
        used_walltime_s=43071.0,
    )


def test_a_start_record_ends_in_a_space_and_has_no_end() -> None:
    run = run_of(f"{IDENTITY} {TIMES} exec_host=n1/0+n1/1 Resource_List.walltime=90:00:00 ", kind="S")
    assert (run.end, run.processors, run.requested_walltime_s) == (None, 2, 324000.0)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("n1/0+n1/1", {"n1": 2}),
        ("n2/0-1+n1/1-2", {"n2": 2, "n1": 2}),
        ("n1/0*8", {"n1": 8}),
        ("n1/0*8+n2/3+n2/0-1", {"n1": 8, "n2": 3}),
        ("n1/0,2,5-7", {"n1": 5}),
        ("n1/0*0+n2/0*4", {"n1": 0, "n2": 4}),
        ("n1", {"n1": 1}),
        ("r1-n1.example/11", {"r1-n1.example": 1}),
    ],
)
def test_every_form_of_exec_host(text: str, nodes: dict[str, int]) -> None:
    assert processors_by_node(text) == nodes
    assert ended(f"exec_host={text}").processors == sum(nodes.values())


@pytest.mark.parametrize(
    "text",
    ["n1/0-99999999", "n1/5-3", "n1/", "/0", "+", "n1/0++n2/0", "n1/0*", "n1/-1", "n1/a", "n1/0*999999999",
     "n" * 256 + "/0", "n1/٣"],
)  # fmt: skip
def test_an_impossible_exec_host_is_refused(text: str) -> None:
    with pytest.raises(AccountingError, match="exec_host"):
        processors_by_node(text)


def test_a_job_of_more_processors_than_any_machine_has_is_refused() -> None:
    with pytest.raises(AccountingError, match="more than 10000000"):
        processors_by_node("+".join(f"n{i}/0-65535" for i in range(153)))


def test_values_hold_spaces_equals_signs_semicolons_and_commas() -> None:
    run = ended("queue=batch exec_host=n1/0", "user=ann group=domain users account=acct with space jobname=odd=na,me;x")
    assert (run.group, run.account, run.name, run.queue) == (
        "domain users",
        "acct with space",
        "odd=na,me;x",
        "batch",
    )


def test_keys_that_nobody_knows_end_the_value_before_them() -> None:
    run = ended("exec_host=n1/0 novel=1 Resource_List.nodes=1:ppn=2:gpus=1 unheard.of=x total_execution_slots=2")
    assert (run.exec_host, run.requested_nodes) == ("n1/0", "1:ppn=2:gpus=1")


def test_what_a_user_writes_does_not_stand_for_what_the_server_writes() -> None:
    account = "account=x user=root group=root start=1 end=2 exec_host=evil/0 Exit_status=9"
    run = run_of(f"{IDENTITY} {account} {TIMES} exec_host=n1/0 end=1315458141 Exit_status=0")
    assert (run.user, run.group, run.start, run.end) == ("ann", "staff", 1315415070.0, 1315458141.0)
    assert (run.exec_host, run.exit_status) == ("n1/0", 0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("6", 6), ("6.5", 6.5), ("00:00:06", 6), ("144:00:00", 518400), ("2:01:00:00", 176400), ("00:00:00", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_s("cput", text) == seconds
    assert ended(f"resources_used.cput={text}").used_cpu_s == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("968576kb", 968576 * 1024), ("3gb", 3 * 2**30), ("1500mb", 1500 * 2**20), ("2tb", 2**41), ("7b", 7), ("10", 10),
     ("2w", 16), ("2kw", 16384), ("1GB", 2**30), ("0kb", 0)],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert size_bytes("mem", text) == size
    assert ended(f"resources_used.mem={text}").used_memory_bytes == size


@pytest.mark.parametrize(
    ("limits", "failure"),
    [
        ("Resource_List.walltime=11:57:51", "time"),
        ("Resource_List.walltime=11:57:52", "memory"),
        ("Resource_List.walltime=unlimited", "memory"),
        ("", "memory"),
        ("Resource_List.walltime=24:00:00 Resource_List.cput=10:00:00", None),
        ("Resource_List.walltime=11:00:00 Resource_List.pcput=10:00:00", "time"),
    ],
)
def test_over_a_limit_that_older_releases_do_not_name(limits: str, failure: str | None) -> None:
    assert ended(f"Exit_status=-10 {limits}").failure == failure


@pytest.mark.skipif(not REAL_DAY.exists(), reason=f"no real day of TORQUE beside {REAL_DAY.parent.parent}")
def test_a_real_server_said_of_119_jobs_that_they_ran_over_their_time() -> None:
    with gzip.open(REAL_DAY, "rt") as lines:
        events = [parse_line(line.rstrip("\n")) for line in lines if ";E;" in line and "Exit_status=-10" in line]
    runs = [event.run for event in events if event.run is not None]
    assert Counter(run.failure for run in runs) == {"time": 119}
    assert all((run.end or 0.0) - run.start >= (run.requested_walltime_s or 0.0) for run in runs)


@pytest.mark.parametrize(
    ("status", "failure"), [(-10, "memory"), (-11, "time"), (-12, None), (271, None), (0, None), (139, None)]
)
def test_exit_status_and_what_a_job_ran_out_of(status: int, failure: str | None) -> None:
    run = ended(f"Exit_status={status}")
    assert (run.exit_status, run.failure) == (status, failure)


@pytest.mark.parametrize(
    ("fields", "total"),
    [
        ("Resource_List.mem=4gb Resource_List.pmem=9gb", 4 * 2**30),
        ("Resource_List.pmem=1gb Resource_List.vmem=9gb", 2 * 2**30),
        ("Resource_List.pvmem=9gb Resource_List.vmem=8gb", 8 * 2**30),
        ("Resource_List.pvmem=3gb", 6 * 2**30),
        ("Resource_List.mem=unlimited", None),
        ("", None),
    ],
)
def test_requested_memory_is_that_of_the_whole_job(fields: str, total: int | None) -> None:
    assert ended(f"exec_host=n1/0-1 {fields}").requested_memory_bytes == total


def test_array_members_are_jobs_and_parents_are_not() -> None:
    member = parse_line(E_LINE.replace("5193311.", "4[1]."))
    parent = parse_line("09/08/2011 00:02:21;E;4[].firefly.example;user=ann group=staff start=5 end=9")
    assert member.run is not None
    assert not member.array_parent
    assert (parent.run, parent.array_parent) == (None, True)


@pytest.mark.parametrize("kind", ["Q", "R", "D", "A", "L", "k"])
def test_other_kinds(kind: str) -> None:
    event = parse_line(f"01/31/2024 23:59:59;{kind};12-3.s;requestor=ann@login")
    assert event == JobEvent(kind, "12-3.s", 1706745599.0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "an empty line"),
        ("09/08/2011 00:02:21;E;5.s", "fewer than four fields separated by semicolons"),
        ("2011-09-08 00:02:21;Q;5.s;queue=a", "the line does not begin with a stamp MM/DD/YYYY HH:MM:SS"),
        ("13/08/2011 00:02:21;Q;5.s;queue=a", "the stamp is not a date"),
        ("09/08/0001 00:02:21;Q;5.s;queue=a", "the stamp is not a date"),
        ("09/08/2011 00:02:21;EE;5.s;queue=a", "the kind of record is not one letter"),
        ("09/08/2011 00:02:21;Q;;queue=a", "not a job id"),
        ("09/08/2011 00:02:21;Q;x.s;queue=a", "not a job id"),
        ("09/08/2011 00:02:21;Q;5.s;queue=a\x00", "control characters"),
        ("09/08/2011 00:02:21;E;5.s;start=1309/08/2011 00:02:22;S;6.s;", "another record begins within the line"),
        (f"09/08/2011 00:02:21;E;5.s;{TIMES} end=1315458141", "user is missing"),
        ("09/08/2011 00:02:21;E;5.s;user=a end=1315458141", "start is missing"),
        (f"09/08/2011 00:02:21;E;5.s;user=a {TIMES}", "end is missing"),
        (f"09/08/2011 00:02:21;E;5.s;user=a {TIMES} end=1315415069", "end is before start"),
        (f"09/08/2011 00:02:21;E;5.s;user={'a' * 10_000} {TIMES} end=1315458141", "user is longer than 255 characters"),
        ("09/08/2011 00:02:21;S;5.s;user=a start=NaN", "start is not a time in epoch seconds"),
        ("09/08/2011 00:02:21;S;5.s;user=a start=0", "start is not a time in epoch seconds"),
        ("09/08/2011 00:02:21;S;5.s;user=a start=99999999999", "start is not a time in epoch seconds"),
        ("09/08/2011 00:02:21;S;5.s;user=a start=9223372036854775808", "start is not a time in epoch seconds"),
    ],
)  # fmt: skip
def test_lines_that_cannot_be_used(line: str, reason: str) -> None:
    with pytest.raises(AccountingError) as caught:
        parse_line(line)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "field",
    [
        "resources_used.mem=NaN",
        "resources_used.mem=-1kb",
        "resources_used.mem=9999999999999pb",
        "resources_used.cput=inf",
        "resources_used.cput=-6",
        "resources_used.cput=99999999999",
        "resources_used.walltime=",
        "Exit_status=9223372036854775808",
        "Exit_status=1.5",
        "Resource_List.walltime=soon",
        "Resource_List.mem=lots",
        "etime=-1",
    ],
)
def test_absurd_numbers_are_refused_with_their_key(field: str) -> None:
    with pytest.raises(AccountingError) as caught:
        ended(field)
    assert caught.value.reason.startswith(field.partition("=")[0])


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


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode("latin-1"))))
def test_nothing_but_its_own_error_comes_out_of_the_parser(line: str) -> None:
    try:
        event = parse_line(line)
    except AccountingError:
        return
    _stored_values_fit(event)


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
