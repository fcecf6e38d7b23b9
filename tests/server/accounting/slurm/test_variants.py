"""Text of sacct as many sites and releases print it: what is requested, used and shown does not depend on the form."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from jobsight_server.accounting.read_logs import follow_once, import_files
from jobsight_server.queries.job_named import job_clusters
from jobsight_server.settings import AccountingSource
from jobsight_server.storage.schema import jobs

from .conftest import MIB, NOON
from .test_text import run_of, text

Read = Callable[[bytes], list[Any]]
VARIANTS = range(60)
NEEDED = ["JobIDRaw", "User", "State", "Submit", "Start", "End", "NodeList"]
DELIMITERS = ("|", "\x1f", ";", "^", "||")


def job(number: int = 7, **more: Any) -> dict[str, str]:
    times = {"Submit": f"{NOON - 60}", "Start": f"{NOON}", "End": f"{NOON + 100}"}
    return {"JobIDRaw": f"{number}", "User": "ann", "State": "COMPLETED", "NodeList": "n1", **times, **more}


def step(number: int = 7, **more: Any) -> dict[str, str]:
    return job(number, **more) | {"JobIDRaw": f"{number}.0", "User": ""}


def columns_of(rng: random.Random, *rows: dict[str, str]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return rng.sample(names, len(names))


def amount(rng: random.Random, mib: int) -> str:
    forms = [f"{mib}M", f"{mib}.00M", f"{mib * 1024}K"] + ([f"{mib // 1024}G"] if mib % 1024 == 0 else [])
    return rng.choice(forms)


@pytest.mark.parametrize("seed", VARIANTS)
def test_requested_memory_is_of_the_whole_job(events: Read, seed: int) -> None:
    rng = random.Random(seed)
    asked, held, nodes = rng.randrange(1, 65), rng.randrange(64, 129), rng.randrange(1, 5)
    mib = rng.randrange(1, 64) * 512
    total = mib * asked
    forms: list[dict[str, str]] = [
        {"ReqMem": f"{2**31 + mib}M{rng.choice(['n', 'c', ''])}"},
        {"ReqMem": f"{2**63 + mib}M{rng.choice(['n', 'c', ''])}"},
        {"ReqMem": f"{amount(rng, mib)}c"},
        {"ReqMem": rng.choice([f"{2**31 + mib}Mn", "2.00Pn", "0n", "", "?"]), "ReqTRES": f"mem={amount(rng, total)}"},
        {"ReqMem": amount(rng, total)},
        {"ReqMem": f"{amount(rng, mib)}n"},
    ]
    form = forms[seed % len(forms)]
    if form == forms[-1]:
        total = mib * nodes
    if "ReqTRES" in form:
        parts = [f"cpu={asked}", form["ReqTRES"], f"node={nodes}", "billing=9"]
        form["ReqTRES"] = ",".join(rng.sample(parts, len(parts)))
    row = job(AllocCPUS=f"{held}", ReqCPUS=f"{asked}", NNodes=f"{nodes}", **form)
    run = run_of(events, row, columns=columns_of(rng, row), delimiter=rng.choice(DELIMITERS))
    assert run.requested_memory_bytes == total * MIB
    assert (run.processors, run.asked_processors) == (held, asked if asked != held else None)


@pytest.mark.parametrize("rounded", ["2.00P", "2.00Pn", "2097152G", "2.25Pc", "2048T"])
def test_a_flag_of_which_only_the_rounded_sum_is_left_is_unknown(events: Read, rounded: str) -> None:
    assert run_of(events, job(ReqMem=rounded), columns=list(job(ReqMem=""))).requested_memory_bytes is None


@pytest.mark.parametrize("seed", VARIANTS)
def test_an_average_is_no_peak(events: Read, seed: int) -> None:
    rng = random.Random(seed)
    tasks, largest = rng.randrange(1, 9), rng.randrange(64, 4096)
    average = rng.choice([0, largest // 2, largest])
    use = {"NTasks": f"{tasks}", "AveRSS": rng.choice([amount(rng, average), "0"]) if average else "0"}
    if with_largest := rng.random() < 0.7:
        use["MaxRSS"] = amount(rng, largest)
    average = 0 if use["AveRSS"] == "0" else average
    rows = job(), step(**use)
    run = run_of(events, *rows, columns=columns_of(rng, *rows), delimiter=rng.choice(DELIMITERS))
    held = max(average * tasks, largest if with_largest else 0)
    assert run.used_memory_bytes == (held * MIB or None)
    if held:
        assert run.memory_incomplete is not (with_largest and tasks == 1)


def two_headers(rng: random.Random, first: int, second: int) -> bytes:
    """Two outputs in one file, with other columns, orders and delimiters."""
    parts = []
    for begin, count in ((1, first), (1 + first, second)):
        rows = [
            row
            for number in range(begin, begin + count)
            for row in (job(number, ReqMem="64G", AllocCPUS="4"), step(number, MaxRSS="500M", NTasks="1"))
        ]
        more = rng.sample(["Account", "Partition", "QOS"], rng.randrange(3))
        columns = rng.sample([*NEEDED, "ReqMem", "MaxRSS", "NTasks", "AllocCPUS", *more], 11 + len(more))
        parts.append(text(*rows, columns=columns, delimiter=rng.choice(DELIMITERS), end=rng.choice(["\n", "\r\n"])))
    return rng.choice([b"", b"\n"]).join(parts)


@pytest.mark.parametrize("seed", VARIANTS)
def test_another_header_counts_from_its_line_on(events: Read, seed: int) -> None:
    found = events(two_headers(random.Random(seed), 3, 3))
    assert [event.job_id for event in found] == [f"{number}" for number in range(1, 7)]
    for event in found:
        assert (event.run.requested_memory_bytes, event.run.used_memory_bytes) == (64 * 2**30, 500 * MIB)


def test_a_file_that_grows_below_another_header(sqlite_engine: Engine, tmp_path: Path) -> None:
    file, whole = tmp_path / "log", two_headers(random.Random(3), 3, 4)
    source = AccountingSource("lab", file=file, format="slurm")
    for end in (len(whole) // 3, len(whole) * 3 // 4, len(whole) - 5, len(whole)):
        file.write_bytes(whole[:end])
        assert follow_once(sqlite_engine, source, lambda: 1.8e9).rejected.total() == 0
    with sqlite_engine.connect() as connection:
        rows = connection.execute(select(jobs.c.used_memory_bytes, jobs.c.requested_memory_bytes)).all()
    assert [tuple(row) for row in rows] == [(500 * MIB, 64 * 2**30)] * 7


def test_a_header_in_the_name_of_a_job_switches_nothing(events: Read) -> None:
    columns = [*NEEDED, "JobName", "ReqMem", "MaxRSS"]
    forged = "x\n" + "|".join([*NEEDED, "JobName", "MaxRSS", "ReqMem"]) + "\ny"
    rows = job(1, JobName=forged), job(2, JobName="a", ReqMem="64G"), step(2, JobName="a", MaxRSS="500M")
    found = events(text(*rows, columns=columns, delimiter="|"))
    (last,) = (event for event in found if not isinstance(event, str))
    assert (last.run.requested_memory_bytes, last.run.used_memory_bytes) == (64 * 2**30, 500 * MIB)


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED"])
@pytest.mark.parametrize("order", ["at once", "one by one", "the later one first"])
def test_a_failed_node_ends_a_job_unless_it_is_submitted_again(
    sqlite_engine: Engine, tmp_path: Path, state: str, order: str
) -> None:
    again = {"Submit": f"{NOON + 100}", "Start": f"{NOON + 200}", "End": f"{NOON + 300}"}
    rows = [job(1, State=state), job(2, State=state), job(2, **again)]
    chosen = rows[::-1] if order == "the later one first" else rows
    pieces = [[row] for row in chosen] if order == "one by one" else [chosen]
    for number, piece in enumerate([*pieces, rows]):
        file = tmp_path / f"{number}"
        file.write_bytes(text(*piece, columns=NEEDED))
        import_files(sqlite_engine, [file], "lab", lambda: 1.8e9, "slurm")
    with sqlite_engine.connect() as connection:
        found = connection.execute(select(jobs.c.job_id, jobs.c.state).order_by(jobs.c.job_id, jobs.c.start)).all()
    assert [tuple(row) for row in found] == [("1", "ended"), ("2", "requeued"), ("2", "ended")]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_part_of_a_heterogeneous_job_is_found_by_the_id_that_sacct_prints(
    sqlite_engine: Engine, tmp_path: Path, newest: Any, form: str
) -> None:
    file, part = tmp_path / "log", newest.job(job_id=72)
    part["het"] = {"job_id": 71, "job_offset": newest.number(1)}
    row = job(72, JobID="71+1")
    file.write_bytes(newest.document(part) if form == "json" else text(row, columns=list(row)))
    import_files(sqlite_engine, [file], "lab", lambda: 1.8e9, "slurm")
    with sqlite_engine.connect() as connection:
        assert [job_clusters(connection, job_id) for job_id in ("71+1", "72", "71+2")] == [["lab"], ["lab"], []]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("sluid", ["s5K1KKYAYG5D00", "", None])
def test_the_name_of_a_jobs_cgroups_is_kept(
    sqlite_engine: Engine, tmp_path: Path, newest: Any, form: str, sluid: str | None
) -> None:
    file, record, row = tmp_path / "log", newest.job(job_id=72), job(72)
    if sluid is not None:
        record["sluid"], row = sluid, job(72, SLUID=sluid)
    file.write_bytes(newest.document(record) if form == "json" else text(row, columns=list(row)))
    import_files(sqlite_engine, [file], "lab", lambda: 1.8e9, "slurm")
    with sqlite_engine.connect() as connection:
        assert connection.execute(select(jobs.c.job_id, jobs.c.sluid)).all() == [("72", sluid or None)]
