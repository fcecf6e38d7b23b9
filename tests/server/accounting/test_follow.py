from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests import make
from tests.server.accounting.conftest import counted, rejects, rows

from jobsight_server.accounting.clock_offset import ClockOffset
from jobsight_server.accounting.load import LoadReport
from jobsight_server.accounting.log_reader import LogReader
from jobsight_server.accounting.read_logs import follow_once
from jobsight_server.accounting.store import KEPT_PER_CLUSTER
from jobsight_server.settings.declared import AccountingSource

DAY = "20231114"
NEXT = "20231115"
RUN = ("job_id", "start", "end", "state", "user", "processors")


def follow(engine: Engine, directory: Path, **more: Any) -> LoadReport:
    report = follow_once(engine, AccountingSource("c", directory, format="torque"), lambda: 1.8e9, **more)
    assert report.kinds.total() + report.rejected.total() == report.lines
    counts = make.counts(engine)
    lines = {label: value for (name, label), value in counts.items() if name == "accounting_lines"}
    because = sum(value for (name, _), value in counts.items() if name == "accounting_rejected_because")
    assert lines.get("rejected", 0) == because
    for kind in "SERDA":
        outcomes = [
            v for (n, label), v in counts.items() if n == "accounting_outcomes" and label.startswith(f"{kind} ")
        ]
        assert sum(outcomes) == lines.get(kind, 0)
    return report


@pytest.mark.storage
def test_a_day(engine: Engine, directory: Path, log: Any, noon: int) -> None:
    log.write(noon, "Q", "1.s", "queue=batch")
    log.start("1.s", noon + 10)
    log.start("2.s", noon + 20, user="bob", host="n1/2+n2/0*4")
    log.end("1.s", noon + 10, noon + 130)
    log.write(noon + 140, "R", "2.s")
    log.start("2.s", noon + 200, user="bob", host="n3/0-3")
    log.write(noon + 210, "Q", "3.s", "queue=batch")
    log.write(noon + 220, "D", "3.s", "requestor=ann@login")
    log.start("4.s", noon + 230)
    log.write(noon + 240, "D", "4.s", "requestor=ann@login")
    log.write(noon + 250, "E", "5[].s", "user=ann start=1 end=2")
    log.write(noon + 260, "L", "license", "x")
    (directory / DAY).write_bytes(log.data)
    report = follow(engine, directory)
    assert report.lines == 12
    assert dict(report.kinds) == {"Q": 2, "S": 4, "E": 2, "R": 1, "D": 2, "L": 1}
    assert report.outcomes["E", "parent of an array"] == 1
    assert report.outcomes["D", "no run of it under way"] == 1
    assert rows(engine, *RUN) == [
        ("1.s", noon + 10, noon + 130, "ended", "ann", 2),
        ("2.s", noon + 20, noon + 140, "requeued", "bob", 5),
        ("2.s", noon + 200, None, "running", "bob", 4),
        ("4.s", noon + 230, noon + 240, "deleted", "ann", 2),
    ]
    with engine.connect() as connection:
        query = "SELECT j.job_id, n.node, n.processors FROM jobs j JOIN job_nodes n ON n.run_id = j.id ORDER BY 1, 2"
        assert [tuple(row) for row in connection.execute(text(query))] == [
            ("1.s", "n1", 2),
            ("2.s", "n1", 1),
            ("2.s", "n2", 4),
            ("2.s", "n3", 4),
            ("4.s", "n1", 2),
        ]
        row = connection.execute(text("SELECT * FROM jobs WHERE job_id = '1.s'")).mappings().one()
    assert (row["used_memory_bytes"], row["used_cpu_s"], row["exit_status"]) == (2 * 2**20, 60.0, 0)
    assert (row["created"], row["recorded_at"], row["profiled"]) == (noon - 50, 1.8e9, False)
    assert follow(engine, directory).lines == 0


def test_rotation_packing_and_renaming_read_nothing_twice(
    engine: Engine, directory: Path, log: Any, noon: int, dump: Callable[[Engine], Any]
) -> None:
    for number in range(200):
        log.end(f"{number}.s", noon + number, noon + number + 60)
    first = log.data
    (directory / DAY).write_bytes(first)
    assert follow(engine, directory).lines == 200
    last = log.end("900.s", noon, noon + 60).encode()
    (directory / DAY).write_bytes(first + last)
    (directory / NEXT).write_bytes(log.end("901.s", noon, noon + 90000).encode())
    (directory / ".notes").write_text("no log")
    assert follow(engine, directory).lines == 2
    # Packed beside the plain file, then alone; a line that was written just before the packing is not lost.
    (directory / f"{DAY}.gz").write_bytes(gzip.compress(first + last))
    assert follow(engine, directory).lines == 0
    (directory / DAY).unlink()
    missed = log.end("902.s", noon, noon + 70).encode()
    (directory / f"{DAY}.gz").write_bytes(gzip.compress(first + last + missed))
    assert follow(engine, directory).lines == 1
    (directory / f"{DAY}.gz").rename(directory / "20231113.gz")
    before = dump(engine)
    assert follow(engine, directory).lines == 0
    assert len(rows(engine, *RUN)) == 203
    for table in ("jobs", "event_counts", "accounting_rejects"):
        assert dump(engine)[table] == before[table]


def test_a_packed_file_that_has_not_changed_is_not_opened(
    sqlite_engine: Engine, directory: Path, log: Any, noon: int
) -> None:
    log.end("1.s", noon, noon + 60)
    (directory / f"{DAY}.gz").write_bytes(gzip.compress(log.data))
    assert follow(sqlite_engine, directory).files == 1
    assert follow(sqlite_engine, directory).files == 0


def test_a_cut_line_is_rejected_once_a_newer_file_exists_and_taken_back_if_its_end_comes(
    engine: Engine, directory: Path, log: Any, noon: int
) -> None:
    log.end("1.s", noon, noon + 60)
    log.end("2.s", noon, noon + 60)
    log.end("3.s", noon, noon + 60)
    whole = log.data
    end_of_second = whole.rfind(b"\n", 0, -1) + 1
    (directory / DAY).write_bytes(whole[: end_of_second - 30])
    follow(engine, directory)
    (directory / NEXT).write_bytes(b"")
    assert dict(follow(engine, directory).rejected) == {"cut off: the file ends within the line": 1}
    assert [(line, reason) for line, reason, _ in rejects(engine)] == [(2, "cut off: the file ends within the line")]
    assert follow(engine, directory).lines == 0
    (directory / DAY).write_bytes(whole)
    assert follow(engine, directory).lines == 3
    assert [run[0] for run in rows(engine, *RUN)] == ["1.s", "2.s", "3.s"]
    assert rejects(engine) == []
    assert counted(engine, "accounting_lines").get("rejected", 0) == 0
    assert counted(engine, "accounting_lines").get("E", 0) == 3


def test_a_file_that_was_cut_replaced_or_mended_is_read_again(
    engine: Engine, directory: Path, log: Any, noon: int
) -> None:
    for number in range(100):
        log.end(f"{number}.s", noon + number, noon + number + 60)
    log.lines[50] = "a line that somebody will mend\n"
    (directory / DAY).write_bytes(log.data)
    assert follow(engine, directory).rejected.total() == 1
    log.lines[50] = log.end("50.s", noon + 50, noon + 110)
    (directory / DAY).write_bytes(log.data)
    assert follow(engine, directory).lines == 101
    assert len(rows(engine, *RUN)) == 100
    (directory / DAY).write_bytes(b"".join(line.encode() for line in log.lines[:10]))
    assert follow(engine, directory).lines == 10
    fresh = log.end("777.s", noon, noon + 60).encode()
    (directory / DAY).write_bytes(fresh * 3)
    assert follow(engine, directory).lines == 3
    assert len(rows(engine, *RUN)) == 101
    assert counted(engine, "accounting_files").get("read again", 0) == 3


def test_the_kept_rejects_are_bounded_but_all_are_counted(sqlite_engine: Engine, directory: Path) -> None:
    (directory / DAY).write_bytes(b"x\n" * (KEPT_PER_CLUSTER + 700))
    follow(sqlite_engine, directory)
    kept = rejects(sqlite_engine)
    assert (len(kept), kept[0][0], kept[-1][0]) == (KEPT_PER_CLUSTER, 701, KEPT_PER_CLUSTER + 700)
    assert counted(sqlite_engine, "accounting_lines").get("rejected", 0) == KEPT_PER_CLUSTER + 700


def test_what_cannot_be_read_is_reported_and_the_rest_is_read(
    engine: Engine, directory: Path, log: Any, noon: int
) -> None:
    report = follow(engine, directory / "absent")
    assert report.unreadable == {str(directory / "absent"): "directory: No such file or directory"}
    (directory / DAY).mkdir()
    packed = gzip.compress(b"".join(log.end(f"{n}.s", noon + n, noon + n + 5).encode() for n in range(3000)))
    (directory / "20231113.gz").write_bytes(packed[: len(packed) // 2])
    (directory / NEXT).write_bytes(log.end("9999.s", noon, noon + 60).encode())
    report = follow(engine, directory)
    assert report.unreadable[str(directory / DAY)] == "file: not a regular file: a directory"
    assert report.unreadable[str(directory / "20231113.gz")].startswith("damaged gzip: ")
    assert report.rejected.total() <= 1
    assert 500 < report.kinds["E"] < 3001
    assert rows(engine, *RUN)[-1][0] == "9999.s"
    assert counted(engine, "accounting_unreadable").get("file: not a regular file", 0) == 1
    # The whole file takes the place of the damaged one.
    (directory / "20231113.gz").write_bytes(packed)
    follow(engine, directory)
    assert len(rows(engine, *RUN)) == 3001
    assert rejects(engine) == []


@pytest.mark.parametrize("offset_s", [-18_000, 0, 20_700, 50_400])
def test_the_zone_of_stamps_shows_in_the_log(
    sqlite_engine: Engine, directory: Path, make_log: Callable[[int], Any], noon: int, offset_s: int
) -> None:
    log = make_log(offset_s)
    log.write(noon, "R", "7.s")  # of a run without a start record
    log.start("1.s", noon + 10)
    log.write(noon + 40, "R", "1.s")
    (directory / DAY).write_bytes(log.data)
    follow(sqlite_engine, directory)
    assert rows(sqlite_engine, *RUN)[0][2:4] == (noon + 40, "requeued")


def test_the_zone_is_known_from_what_was_read_before(
    sqlite_engine: Engine, directory: Path, make_log: Callable[[int], Any], noon: int
) -> None:
    log, offset = make_log(20_700), ClockOffset()
    log.start("1.s", noon)
    log.start("2.s", noon)
    (directory / DAY).write_bytes(log.data)
    follow(sqlite_engine, directory, clock_offset=offset)
    (directory / DAY).write_bytes(log.data + log.write(noon + 50, "R", "1.s").encode())
    follow(sqlite_engine, directory, clock_offset=offset)
    (directory / NEXT).write_bytes(log.write(noon + 90, "D", "2.s").encode())
    follow(sqlite_engine, directory, clock_offset=offset)
    assert [run[2:4] for run in rows(sqlite_engine, *RUN)] == [(noon + 50, "requeued"), (noon + 90, "deleted")]


def test_a_log_that_never_shows_its_zone_is_taken_to_be_in_the_given_one(
    sqlite_engine: Engine, directory: Path, make_log: Callable[[int], Any], noon: int
) -> None:
    late, log = make_log(3600 + 400), make_log(3600)  # 400 s are no zone
    late.start("1.s", noon)
    log.write(noon + 600, "R", "1.s")
    (directory / DAY).write_bytes(late.data + log.data)
    follow(sqlite_engine, directory, clock_offset=ClockOffset(timezone(timedelta(hours=1))))
    assert rows(sqlite_engine, *RUN)[0][2:4] == (noon + 600, "requeued")


def test_stopping_between_two_transactions_loses_nothing(
    sqlite_engine: Engine, directory: Path, log: Any, noon: int
) -> None:
    for number in range(1200):
        log.end(f"{number}.s", noon + number, noon + number + 60)
    (directory / DAY).write_bytes(log.data)
    stop = threading.Event()

    def clock() -> float:  # asked once in each transaction
        stop.set()
        return 1.8e9

    report = follow_once(sqlite_engine, AccountingSource("c", directory), clock, stop)
    assert 0 < report.lines < 1200
    assert report.lines + follow(sqlite_engine, directory).lines == 1200
    assert len(rows(sqlite_engine, *RUN)) == 1200


def test_clusters_do_not_mix(engine: Engine, directory: Path, log: Any, noon: int) -> None:
    log.start("1.s", noon)
    (directory / DAY).write_bytes(log.data)
    for cluster in ("c", "d"):
        assert follow_once(engine, AccountingSource(cluster, directory), lambda: 1.0).lines == 1
    assert len(rows(engine, *RUN)) == 2


@pytest.mark.parametrize("jobs_at_first", [1, 3, 20])
def test_a_small_file_that_grows_while_it_is_read_is_counted_once(
    engine: Engine, directory: Path, log: Any, noon: int, jobs_at_first: int
) -> None:
    """The fingerprint is of the first 4 KiB: of a smaller file, of all of it, however far it had been read by then."""
    for number in range(40):
        log.end(f"{number}.s", noon + number, noon + number + 60)
    file = directory / DAY
    file.write_text("".join(log.lines[:jobs_at_first]))
    grown = iter(range(jobs_at_first, 40))

    def grow(path: Path, _: int) -> None:
        with path.open("a") as end:
            for number in [*grown][:1]:
                end.write(log.lines[number])

    reader = LogReader(engine, "c", lambda: 1.8e9, progress=grow, most_records=jobs_at_first)
    reader.read(file, final=False)
    assert reader.report.lines == jobs_at_first + 1
    file.write_bytes(log.data)
    follow(engine, directory)
    assert follow(engine, directory).lines == 0
    assert len(rows(engine, *RUN)) == 40
    assert counted(engine, "accounting_lines").get("E", 0) == 40
    assert counted(engine, "accounting_files").get("read again", 0) == 0
