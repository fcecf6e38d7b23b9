"""A Slurm followed by its commands: scripts that print given text, fail, hang or print half."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from sqlalchemy import Engine, select
from tests import make
from tests.server.accounting.conftest import counted, rejects, rows

from jobsight_server.accounting.follow_queue import QueueFollower
from jobsight_server.accounting.follow_slurm import SlurmFollower
from jobsight_server.accounting.load import LoadReport
from jobsight_server.accounting.parsers.slurm.squeue import WIDTHS
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.storage.schema import accounting_files
from jobsight_server.storage.seldom import Seldom

NOON = 1_700_000_000


class FakeSlurm:
    """Two commands that print files; ``behaviour`` is what else a shell does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("sacct", "squeue"):
            script = directory / name
            script.write_text(
                f'#!/bin/sh\ncd {directory}\necho "$*" >> calls\n. ./{name}.behaviour\n'
                """mark=$(printf %s "$*" | sed -n 's/.*,Name:256\\(.*\\)/\\1/p')\n"""
                f"""sed "s/@MARK@/$mark/g" {name}.json\n. ./{name}.after\n"""
            )
            script.chmod(0o755)
            self.answers(name, b'{"jobs": []}' if name == "sacct" else b"")

    def answers(self, name: str, data: bytes, before: str = ":", after: str = "exit 0") -> None:
        (self.directory / f"{name}.json").write_bytes(data)
        (self.directory / f"{name}.behaviour").write_text(before)
        (self.directory / f"{name}.after").write_text(after)

    @property
    def calls(self) -> list[str]:
        return (self.directory / "calls").read_text().splitlines()

    def source(self, **more: Any) -> AccountingSource:
        commands = {"sacct": (str(self.directory / "sacct"),), "squeue": (str(self.directory / "squeue"),)}
        return AccountingSource("lab", format="slurm", **{**commands, **more})


def waiting(job_id: int, submitted: int = NOON - 60, state: str = "PENDING", **changed: str) -> bytes:
    """A line of squeue with marks after its values, each as wide as was asked for."""
    given = (
        f"{job_id}",
        "N/A",
        state,
        "ann",
        "hpc",
        "physics",
        "batch",
        f"{submitted}",
        "N/A",
        "N/A",
        "5:00",
        "4",
        "2",
    )
    rest = ("600M", "cpu=4,mem=1200M,node=2,billing=4", "Priority", "", "(null)", "name")
    values = {**dict(zip(WIDTHS, given + rest, strict=True)), **changed}
    return ("".join(f"{values[name]:<{width}}@MARK@" for name, width in WIDTHS.items()) + "\n").encode()


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    directory = tmp_path / "bin"
    directory.mkdir()
    return FakeSlurm(directory)


class Follower:
    """Both followers of a Slurm, one after the other."""

    def __init__(self, engine: Engine, source: AccountingSource, clock: Callable[[], float]) -> None:
        self.ran = SlurmFollower(engine, source, clock, Seldom(60.0, 100))
        self.waits = QueueFollower(engine, source, clock, Seldom(60.0, 100)) if source.squeue else None

    def read(self, stop: threading.Event | None = None) -> LoadReport:
        report = self.ran.read(stop)
        if self.waits is not None:
            report.unreadable |= self.waits.read(stop).unreadable
        return report


@pytest.fixture
def follow(sqlite_engine: Engine, slurm: FakeSlurm) -> Callable[..., Follower]:
    def make(clock: Callable[[], float] = lambda: NOON + 1000.0, **more: Any) -> Follower:
        return Follower(sqlite_engine, slurm.source(**more), clock)

    return make


def test_a_job_from_its_submission_to_its_end(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower], newest: Any
) -> None:
    follower = follow()
    slurm.answers("squeue", waiting(7) + waiting(6, state="RUNNING"))
    assert follower.read().unreadable == {}
    columns = ("job_id", "state", "submitted", "processors", "requested_memory_bytes", "requested_walltime_s")
    assert rows(sqlite_engine, *columns) == [("7", "queued", NOON - 60.0, 4, 1200 * 2**20, 300.0)]
    slurm.answers("squeue", waiting(7, state="RUNNING"))
    slurm.answers("sacct", newest.document(newest.job(state=("RUNNING",), end=0)))
    follower.read()
    assert rows(sqlite_engine, "job_id", "state", "start") == [("7", "running", NOON)]
    ended = newest.job(steps=[])
    slurm.answers("sacct", newest.document(ended))
    follower.read()
    assert rows(sqlite_engine, "state", "end", "used_memory_bytes") == [("ended", NOON + 100, None)]
    # The steps of a job may be recorded after its end.
    slurm.answers("sacct", newest.document(newest.job()))
    follower.read()
    assert rows(sqlite_engine, "state", "used_memory_bytes") == [("ended", 10 * 2**20)]
    before = counted(sqlite_engine, "accounting_lines")
    assert before == {"Q": 1, "S": 1, "E": 2}
    for _ in range(3):
        follower.read()
    assert counted(sqlite_engine, "accounting_lines") == before


def test_what_is_asked(slurm: FakeSlurm, follow: Callable[..., Follower]) -> None:
    now = [NOON + 0.0]
    follower = follow(lambda: now[0], overlap_s=100.0, history_s=5000.0)
    follower.read()
    now[0] += 30.5
    follower.read()
    slurm.answers("sacct", b"", before="exit 1")
    now[0] += 30
    follower.read()
    now[0] += 30
    slurm.answers("sacct", b'{"jobs": []}')
    follower.read()
    sacct = [call for call in slurm.calls if "--starttime" in call]
    assert [call.rpartition("now-")[2] for call in sacct] == ["5100", "131", "131", "161"]
    assert sacct[0].startswith("--allusers --duplicates --json --starttime")
    # Another process goes on where this one stopped.
    now[0] += 10
    follow(lambda: now[0], overlap_s=0.0, sacct=(str(slurm.directory / "sacct"), "-S", "now-{seconds}")).read()
    assert "-S now-11" in slurm.calls


@pytest.mark.parametrize(
    ("before", "data", "after", "cause"),
    [
        ("echo 'sacct: error: refused' >&2; exit 1", b"", "", "exit status 1: sacct: error: refused"),
        ("kill -9 $$", b"", "", "ended by signal 9"),
        (":", b'{"jobs": []}', "exit 3", "exit status 3"),
        (":", b"slurmdbd is away\n", "exit 0", "its output is neither a whole JSON"),
        (":", b"", "exit 0", "its output is neither a whole JSON"),
        (":", b'{"errors": []}', "exit 0", "its output is neither a whole JSON"),
        (":", b'{"jobs": [', "exit 0", "its output is neither a whole JSON"),
        ("sleep 60", b"", "", "not finished after 1 s"),
        (":", b'{"jobs": []}', "exec >&-; exec 2>&-; sleep 60", "not finished after 1 s"),
    ],
)
def test_every_way_to_fail(
    sqlite_engine: Engine,
    slurm: FakeSlurm,
    follow: Callable[..., Follower],
    before: str,
    data: bytes,
    after: str,
    cause: str,
) -> None:
    asleep = f"sleep 60.{os.getpid()}"  # other processes may sleep, too
    slurm.answers("sacct", data, before.replace("sleep 60", asleep), after.replace("sleep 60", asleep))
    began = time.monotonic()
    limit_s = 1.0 if cause == "not finished after 1 s" else 60.0
    slurm.answers("squeue", waiting(7))
    report = follow(timeout_s=limit_s).read()
    assert time.monotonic() - began < 40  # what hangs does so for 60 s
    (said,) = report.unreadable.values()
    assert said.startswith(cause)
    (label,) = counted(sqlite_engine, "accounting_unreadable")
    assert f"command sacct: {cause}".startswith(label) or label.startswith(f"command sacct: {cause}")
    assert rows(sqlite_engine, "state") == [("queued",)], "the queue is read all the same"
    assert make.rows(sqlite_engine, select(accounting_files)) == []
    deadline = time.monotonic() + 30  # what was killed goes when the kernel gets to it
    while any(asleep in " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])):
        assert time.monotonic() < deadline, "it sleeps on"
        time.sleep(0.1)


def test_an_output_that_ends_within_a_record_is_read_again(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower], newest: Any
) -> None:
    whole = newest.document(newest.job(job_id=1), newest.job(job_id=2))
    slurm.answers("sacct", whole[: whole.index(b'"job_id": 2')])
    follower = follow(squeue=())
    assert list(follower.read().unreadable.values()) == ["its output ends within a record"]
    slurm.answers("sacct", whole)
    assert follower.read().unreadable == {}
    assert rows(sqlite_engine, "job_id") == [("1",), ("2",)]
    assert counted(sqlite_engine, "accounting_lines") == {"E": 2}


def test_a_damaged_record_is_listed_once(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower], newest: Any
) -> None:
    damaged = newest.job(job_id=2)
    damaged["time"]["start"] = "x"
    slurm.answers("sacct", newest.document(newest.job(job_id=1), damaged, newest.job(job_id=3)))
    follower = follow(squeue=())
    for _ in range(3):
        assert follower.read().unreadable == {}
    assert counted(sqlite_engine, "accounting_lines") == {"E": 2, "rejected": 1}
    assert [reason for _, reason, _ in rejects(sqlite_engine)] == ["time.start is not a number: 'x'"]


def test_a_record_that_slurmdbd_has_not_finished_is_read_again(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower], newest: Any
) -> None:
    now = [NOON + 1000.0]
    follower = follow(lambda: now[0])
    slurm.answers("sacct", newest.document(newest.job(job_id=7, end=0), newest.job(job_id=8)))
    follower.read()
    assert rows(sqlite_engine, "job_id", "state") == [("8", "ended")]
    assert [reason for _, reason, _ in rejects(sqlite_engine)] == []
    now[0] += 30
    slurm.answers("sacct", newest.document(newest.job(job_id=7), newest.job(job_id=8)))
    follower.read()
    assert sorted(rows(sqlite_engine, "job_id", "state")) == [("7", "ended"), ("8", "ended")]
    slurm.answers("sacct", newest.document(newest.job(job_id=9, end=0)))
    follower.read()
    now[0] += 700
    follower.read()
    assert [reason for _, reason, _ in rejects(sqlite_engine)] == ["job 9: end is missing"]


def test_a_header_without_a_needed_column_is_refused_once(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    slurm.answers("sacct", b"JobIDRaw|State\n7|COMPLETED\n8|COMPLETED\n")
    report = follow().read()
    assert report.unreadable == {"command sacct": "the header has no column User; ask sacct for it with --format"}
    assert [reason for _, reason, _ in rejects(sqlite_engine)] == []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a|b;c 'd' \"e\" $(id)", None),
        ("two\nlines\n99|99", None),
        ("é 中", None),
        ("%j,%u", None),
        ("x" * 300, "x" * 256),
    ],
)
def test_names_of_waiting_jobs_forge_nothing(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower], name: str, found: str | None
) -> None:
    # It cuts values off by bytes.
    slurm.answers("squeue", waiting(7, Name=name).replace(name.encode(), name.encode()[:256]))
    assert follow().read().unreadable == {}
    assert rows(sqlite_engine, "job_id", "name", "user") == [("7", found or name, "ann")]


@pytest.mark.parametrize("output", [b"squeue: no controller\n", waiting(7)[:-700], b"x" * 200_000])
def test_a_list_that_is_none_removes_nothing(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower], output: bytes
) -> None:
    slurm.answers("squeue", waiting(7))
    follow().read()
    slurm.answers("squeue", output)
    assert "its output is not in the form that was asked for" in follow().read().unreadable["command squeue"]
    assert rows(sqlite_engine, "job_id", "state") == [("7", "queued")]


def test_a_waiting_job_that_cannot_be_used_is_listed(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    slurm.answers("squeue", waiting(7, TimeLimit="soon") + waiting(8))
    assert follow().read().unreadable == {}
    assert rows(sqlite_engine, "job_id") == [("8",)]
    assert [reason for _, reason, _ in rejects(sqlite_engine)] == ["job 7: Timelimit is not a duration: 'soon'"]


def test_waiting_jobs_that_vanish(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower], newest: Any
) -> None:
    now = [NOON + 0.0]
    follower = follow(lambda: now[0])
    slurm.answers("squeue", b"".join(waiting(number, NOON - 10) for number in (7, 8)))
    follower.read()
    slurm.answers("squeue", waiting(8, NOON - 10))
    follower.read()
    assert rows(sqlite_engine, "job_id") == [("7",), ("8",)]  # it may have started just now
    now[0] += 300
    slurm.answers("squeue", b"", before="exit 1")
    follower.read()
    assert rows(sqlite_engine, "job_id") == [("7",), ("8",)]
    # squeue goes on listing a cancelled job for some minutes.
    cancelled = waiting(7, NOON - 10, state="CANCELLED")
    slurm.answers("squeue", waiting(8, NOON - 10) + cancelled)
    follower.read()
    assert rows(sqlite_engine, "job_id") == [("8",)]
    assert counted(sqlite_engine, "accounting_queued_gone") == {"": 1}


def test_a_job_whose_end_was_recorded_late_is_asked_for(
    slurm: FakeSlurm, follow: Callable[..., Follower], newest: Any
) -> None:
    now = [NOON + 100.0]
    follower = follow(lambda: now[0], overlap_s=0.0, squeue=())
    slurm.answers("sacct", newest.document(newest.job(state=("RUNNING",), end=0)))
    follower.read()
    slurm.answers("sacct", b'{"jobs": []}')
    for _ in range(3):
        now[0] += 100
        follower.read()
    # Not listed at +200, so the next question goes back to its start, once.
    assert [call.rpartition("now-")[2] for call in slurm.calls][1:] == ["100", "300", "100"]


def test_another_form_of_output(sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]) -> None:
    header = "JobIDRaw|User|State|Submit|Start|End|NodeList"
    text = f"{header}\n7|ann|COMPLETED|{NOON - 9}|{NOON}|{NOON + 9}|n1\n"
    slurm.answers("sacct", text.encode())
    assert follow(squeue=()).read().unreadable == {}
    assert rows(sqlite_engine, "job_id", "user", "end") == [("7", "ann", NOON + 9)]


def test_it_stops_at_once_when_told(slurm: FakeSlurm, follow: Callable[..., Follower]) -> None:
    slurm.answers("sacct", b"", before="sleep 60")
    stop = threading.Event()
    timer = threading.Timer(0.5, stop.set)
    timer.start()
    began = time.monotonic()
    assert follow().read(stop).unreadable == {}
    assert time.monotonic() - began < 40  # it would sleep for 60 s
    timer.join()


def test_settings_of_a_source() -> None:
    def source(**fields: Any) -> AccountingSource:
        return msgspec.convert({"cluster": "x", **fields}, AccountingSource)

    assert source(format="slurm", sacct=["ssh", "login", "sacct"]).sacct == ("ssh", "login", "sacct")
    for wrong, why in (
        ({"format": "slurm"}, "directory, file or sacct, one of them"),
        ({"directory": Path("/x"), "file": Path("/x/a")}, "directory, file or sacct, one of them"),
        ({"format": "torque", "sacct": ["sacct"]}, "format = 'slurm'"),
        ({"format": "slurm", "sacct": ["sacct"], "interval_s": 0}, "interval_s"),
        ({"format": "pbspro", "directory": Path("/x"), "squeue": ["squeue"]}, "format = 'slurm' for squeue"),
        ({"format": "gridengine", "file": Path("/x"), "qstat": ["qstat"]}, "'torque' or 'pbspro' for qstat"),
    ):
        with pytest.raises(msgspec.ValidationError, match=why):
            source(**wrong)
