"""A Slurm followed by its commands: scripts that print given text, fail, hang or print half."""

from __future__ import annotations

import os
import re
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
from tests.server.accounting.slurm.conftest import NOON, text_of_sacct

from jobsight_server.accounting.follow_queue import QueueFollower
from jobsight_server.accounting.follow_slurm import SlurmFollower
from jobsight_server.accounting.load import LoadReport
from jobsight_server.accounting.parsers.slurm.squeue import WIDTHS
from jobsight_server.ground.seldom import Seldom
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.storage.schema import accounting_files

RUNNING = {"State": "RUNNING", "End": "Unknown", "TotalCPU": "00:00:00"}


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
            self.answers(name, text_of_sacct() if name == "sacct" else b"")

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
    rest = ("600M", "cpu=4,mem=1200M,node=2,billing=4", "", "(null)", "name")
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
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    follower = follow()
    slurm.answers("squeue", waiting(7) + waiting(6, state="RUNNING"))
    assert follower.read().unreadable == {}
    columns = ("job_id", "state", "submitted", "processors", "requested_memory_bytes", "memory_word")
    assert rows(sqlite_engine, *columns) == [("7", "queued", NOON - 60.0, 4, 1200 * 2**20, "mem")]
    slurm.answers("squeue", waiting(7, state="RUNNING"))
    slurm.answers("sacct", text_of_sacct(RUNNING))
    follower.read()
    assert rows(sqlite_engine, "job_id", "state", "start") == [("7", "running", NOON)]
    slurm.answers("sacct", text_of_sacct({}))
    follower.read()
    assert rows(sqlite_engine, "state", "end", "used_memory_bytes") == [("ended", NOON + 100, None)]
    # The steps of a job may be recorded after its end.
    slurm.answers("sacct", text_of_sacct({"memory": "10M"}))
    follower.read()
    assert rows(sqlite_engine, "state", "used_memory_bytes", "memory_word") == [("ended", 10 * 2**20, "mem")]
    before = counted(sqlite_engine, "accounting_lines")
    assert before == {"Q": 1, "S": 1, "E": 2}
    for _ in range(3):
        follower.read()
    assert counted(sqlite_engine, "accounting_lines") == before


def windows(slurm: FakeSlurm) -> list[tuple[str, ...]]:
    """Return how far each query of sacct reached back, and until when."""
    return [tuple(re.findall(r"--(?:start|end)time (\S+)", call)) for call in slurm.calls if "--starttime" in call]


def test_what_is_asked(slurm: FakeSlurm, follow: Callable[..., Follower]) -> None:
    now = [NOON + 0.0]
    follower = follow(lambda: now[0], overlap_s=900.0, history_s=8000.0)
    follower.read()
    for _ in range(10):
        now[0] += 31
        follower.read()
    recent = [("now-91", "now")] * 9
    history = [("now-8900", "now-5300"), ("now-5300", "now-1700"), ("now-1700", "now")]
    assert windows(slurm) == [*history, *recent, ("now-931", "now")]
    (options,) = {call.partition(" --starttime")[0] for call in slurm.calls if "--starttime" in call}
    assert options.startswith("--allusers --duplicates --parsable2 --noconvert --delimiter=\x1f --format=SLUID,")
    # Another process goes on where this one stopped.
    now[0] += 10
    follow(lambda: now[0], overlap_s=0.0).read()
    assert windows(slurm)[-1] == ("now-10", "now")


def test_times_are_asked_for_in_seconds(slurm: FakeSlurm, follow: Callable[..., Follower]) -> None:
    slurm.answers("sacct", text_of_sacct(), before='echo "in $SLURM_TIME_FORMAT" >> calls')
    follow(squeue=()).read()
    assert "in %s" in slurm.calls


def test_the_position_is_kept_after_each_slice(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    now = [NOON + 0.0]
    follower = follow(lambda: now[0], squeue=(), overlap_s=0.0, history_s=4 * 3600.0)
    slurm.answers("sacct", text_of_sacct({"End": f"{NOON + 1}"}), after='case "$*" in *now-3600) exit 1;; esac')
    assert list(follower.read().unreadable.values()) == ["exit status 1"]
    assert windows(slurm) == [("now-14400", "now-10800"), ("now-10800", "now-7200"), ("now-7200", "now-3600")]
    slurm.answers("sacct", text_of_sacct({"End": f"{NOON + 1}"}))
    now[0] += 30
    follow(lambda: now[0], squeue=(), overlap_s=0.0).read()
    assert windows(slurm)[3:] == [("now-7230", "now-3630"), ("now-3630", "now-30"), ("now-30", "now")]
    assert counted(sqlite_engine, "accounting_lines") == {"E": 2}, "two processes read it, each of them once"


def test_a_release_without_a_column_is_asked_for_the_others(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    refuse = """case "$*" in *[,=]{0},*) echo 'sacct: error: Invalid field requested: "{0}"' >&2; exit 1;; esac\n"""
    slurm.answers("sacct", text_of_sacct({}), before=refuse.format("SubmitLine") + refuse.format("SLUID"))
    now = [NOON + 1000.0]
    follower = follow(lambda: now[0], squeue=(), history_s=100.0)
    for _ in range(3):
        assert follower.read().unreadable == {}
        now[0] += 30
    assert rows(sqlite_engine, "job_id", "state") == [("7", "ended")]
    assert len(slurm.calls) == 2 + 3
    slurm.answers("sacct", text_of_sacct({}))  # Slurm is upgraded
    now[0] += 300
    follower.read()
    assert "SLUID,SubmitLine" in slurm.calls[-1]


@pytest.mark.parametrize(
    ("before", "data", "after", "cause"),
    [
        ("echo 'sacct: error: refused' >&2; exit 1", b"", "", "exit status 1: sacct: error: refused"),
        ("kill -9 $$", b"", "", "ended by signal 9"),
        (":", text_of_sacct(), "exit 3", "exit status 3"),
        (":", b"slurmdbd is away\n", "exit 0", "its output does not begin with the header"),
        (":", b"", "exit 0", "its output does not begin with the header"),
        (":", b'{"jobs": []}', "exit 0", "its output does not begin with the header"),
        ("sleep 60", b"", "", "silent for 1 s"),
        (":", text_of_sacct(), "sleep 60", "silent for 1 s"),
        (":", text_of_sacct(), "exec >&-; exec 2>&-; sleep 60", "silent for 1 s"),
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
    limit_s = 1.0 if cause == "silent for 1 s" else 60.0
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


def test_only_silence_is_limited(sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]) -> None:
    """The whole takes longer than the limit, but no piece of it does."""
    slowly = (
        'for job in 1 2 3 4 5 6 7 8; do sleep .4; printf \'%s\\n\' "$row" | sed "s/^7.7/$job\x1f$job/"; done; exit 0'
    )
    header, row, _ = text_of_sacct({}).split(b"\n")
    slurm.answers("sacct", header + b"\n", before=f"row='{row.decode()}'", after=slowly)
    began = time.monotonic()
    assert follow(squeue=(), history_s=100.0, timeout_s=2.0).read().unreadable == {}
    assert time.monotonic() - began > 2.0
    assert len(rows(sqlite_engine, "job_id")) == 8


def test_an_output_that_ends_within_a_record_is_read_again(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    whole = text_of_sacct({"JobIDRaw": "1"}, {"JobIDRaw": "2"})
    slurm.answers("sacct", whole[:-20])
    follower = follow(squeue=())
    assert list(follower.read().unreadable.values()) == ["its output ends within a record"]
    slurm.answers("sacct", whole)
    assert follower.read().unreadable == {}
    assert rows(sqlite_engine, "job_id") == [("1",), ("2",)]


def test_a_damaged_record_is_listed_once(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    jobs: list[dict[str, str]] = [{"JobIDRaw": "1"}, {"JobIDRaw": "2", "Start": "x"}, {"JobIDRaw": "3"}]
    slurm.answers("sacct", text_of_sacct(*jobs))
    follower = follow(squeue=())
    for _ in range(3):
        assert follower.read().unreadable == {}
    assert counted(sqlite_engine, "accounting_lines") == {"E": 2, "rejected": 1}
    assert [reason for _, reason, _ in rejects(sqlite_engine)] == ["job 2: Start is not a time: 'x'"]


def test_a_change_that_is_taken_back_is_read(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    follower = follow(squeue=())
    for minutes in (5, 10, 5):
        slurm.answers("sacct", text_of_sacct({"State": "PENDING", "Start": "Unknown", "End": "Unknown",
                                              "NodeList": "None assigned", "TimelimitRaw": f"{minutes}"}))  # fmt: skip
        follower.read()
        assert rows(sqlite_engine, "state", "requested_walltime_s") == [("queued", minutes * 60.0)]


def test_the_users_request_is_that_of_the_start(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    """Slurm 26.05 reduces a running job's memory; before the start, its user may change the request."""
    follower = follow()
    slurm.answers("squeue", waiting(7, MinMemory="900M", **{"tres-alloc": "cpu=4,mem=1800M,node=2"}))
    follower.read()
    slurm.answers("squeue", b"")
    for memory, state in (("1200M", RUNNING), ("400M", RUNNING), ("400M", {})):
        tres = dict.fromkeys(("ReqTRES", "AllocTRES"), f"cpu=4,mem={memory},node=2")
        slurm.answers("sacct", text_of_sacct({"ReqMem": memory, **tres, **state}))
        follower.read()
    columns = ("state", "asked_memory_bytes", "requested_memory_bytes", "sluid")
    assert rows(sqlite_engine, *columns) == [("ended", 1200 * 2**20, 400 * 2**20, "s5K1KKYAYG5D00")]


def test_a_record_that_slurmdbd_has_not_finished_is_read_again(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    now = [NOON + 1000.0]
    follower = follow(lambda: now[0])
    unfinished = {"End": "Unknown"}
    slurm.answers("sacct", text_of_sacct(unfinished, {"JobIDRaw": "8"}))
    follower.read()
    assert rows(sqlite_engine, "job_id", "state") == [("8", "ended")]
    assert [reason for _, reason, _ in rejects(sqlite_engine)] == []
    now[0] += 30
    slurm.answers("sacct", text_of_sacct({}, {"JobIDRaw": "8"}))
    follower.read()
    assert sorted(rows(sqlite_engine, "job_id", "state")) == [("7", "ended"), ("8", "ended")]
    slurm.answers("sacct", text_of_sacct({**unfinished, "JobIDRaw": "9"}))
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


def test_a_job_requeued_between_two_looks_waits_by_its_new_submission(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    follower = follow()
    slurm.answers("squeue", waiting(7))
    follower.read()
    slurm.answers("squeue", waiting(7, NOON + 30) + waiting(8))
    assert follower.read().unreadable == {}
    assert rows(sqlite_engine, "job_id", "queued") == [("7", NOON + 30), ("8", NOON - 60)]


def test_a_record_that_the_database_refuses_costs_only_itself(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    with sqlite_engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER refuses BEFORE INSERT ON jobs WHEN new.job_id = '7' "
            "BEGIN SELECT RAISE(ABORT, 'unforeseen'); END"
        )
    slurm.answers("squeue", waiting(9, TimeLimit="soon") + waiting(7) + waiting(8))
    assert follow().read().unreadable == {}
    assert rows(sqlite_engine, "job_id") == [("8",)]
    assert [reason for _, reason, _ in rejects(sqlite_engine)] == [
        "job 9: Timelimit is not a duration: 'soon'",
        "job 7: the database cannot store it",
    ]
    assert counted(sqlite_engine, "accounting_lines") == {"Q": 1, "rejected": 2}


def test_an_unreadable_job_does_not_keep_jobs_that_vanished(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    now = [NOON + 0.0]
    follower = follow(lambda: now[0])
    slurm.answers("squeue", waiting(7, NOON - 10) + waiting(8, NOON - 10))
    follower.read()
    now[0] += 300
    slurm.answers("squeue", waiting(8, NOON - 10) + waiting(7, NOON - 10, JobID="7x"))  # may be 7
    follower.read()
    assert rows(sqlite_engine, "job_id") == [("7",), ("8",)]
    slurm.answers("squeue", waiting(8, NOON - 10) + waiting(9, TimeLimit="soon"))
    follower.read()
    assert rows(sqlite_engine, "job_id") == [("8",)]


def test_waiting_jobs_that_vanish(sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]) -> None:
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


def test_a_job_whose_end_was_recorded_late_is_asked_for_by_its_id(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
    now = [NOON + 100.0]
    follower = follow(lambda: now[0], overlap_s=0.0, squeue=())
    slurm.answers("sacct", text_of_sacct(RUNNING))
    follower.read()
    late = text_of_sacct({}).decode().splitlines()[1]
    slurm.answers("sacct", text_of_sacct(), after=f"case \"$*\" in *--jobs=*) printf '%s\\n' '{late}';; esac; exit 0")
    before = len(slurm.calls)
    for _ in range(3):
        now[0] += 100
        assert follower.read().unreadable == {}
    asked = [re.findall(r"--jobs=\S+|now\S*", call) for call in slurm.calls[before:]]
    assert asked == [["now-160", "now"], ["now-200", "now", "--jobs=7"], ["now-160", "now"], ["now-100", "now"]]
    assert rows(sqlite_engine, "job_id", "state") == [("7", "ended")]


def test_a_job_that_sacct_has_lost_is_asked_for_once(slurm: FakeSlurm, follow: Callable[..., Follower]) -> None:
    now = [NOON + 100.0]
    follower = follow(lambda: now[0], overlap_s=0.0, squeue=())
    slurm.answers("sacct", text_of_sacct(RUNNING))
    follower.read()
    slurm.answers("sacct", text_of_sacct())
    for _ in range(3):
        now[0] += 100
        follower.read()
    assert sum("--jobs=7" in call for call in slurm.calls) == 1


def test_other_columns_than_were_asked_for(
    sqlite_engine: Engine, slurm: FakeSlurm, follow: Callable[..., Follower]
) -> None:
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
        ({"format": "slurm", "sacct": ["sacct", "-S", "now-{seconds}"]}, "without {seconds} for sacct"),
        ({"directory": Path("/x"), "file": Path("/x/a")}, "directory, file or sacct, one of them"),
        ({"format": "torque", "sacct": ["sacct"]}, "format = 'slurm'"),
        ({"format": "slurm", "sacct": ["sacct"], "interval_s": 0}, "interval_s"),
        ({"format": "pbspro", "directory": Path("/x"), "squeue": ["squeue"]}, "format = 'slurm' for squeue"),
        ({"format": "gridengine", "file": Path("/x"), "qstat": ["qstat"]}, "'torque' or 'pbspro' for qstat"),
    ):
        with pytest.raises(msgspec.ValidationError, match=why):
            source(**wrong)
