"""``jobsight simulate DATABASE``: waits as recorded and replayed, on the site's own machines, by what was known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine
from tests import make

from jobsight_server.cli import main
from jobsight_server.queries.site_machines import site_machines
from jobsight_server.storage.clusters import Part

DAY_S = 86_400.0
GIB = 2.0**30


def site(connection: Connection) -> None:
    """Node a of 4 processors and 8 GiB in one queue, and b, of which little is known, in two others.

    Every day for five weeks: three jobs of 2 processors that request 3 GiB each of a's memory and use a tenth of it.
    Two fit by request, all three of them as recommended. The last was killed, in the record it waited for an hour.
    """
    make.node(connection, "a", cpus=4, memory_total_bytes=int(8 * GIB))
    for day in range(35):
        at = day * DAY_S + 1e6
        for number, (wait, processors) in enumerate(((0.0, 2), (0.0, 1), (3600.0, 1))):
            times = {"submitted": at, "start": at + wait, "end": at + wait + 1800.0, "requested_walltime_s": 3600.0}
            request = {"queue": "fat", "user": "ada", "requested_memory_bytes": int(3 * GIB), "processors": processors}
            kept = {"value": 0.3 * GIB / processors, "bound": 0.2 * GIB, "attempts": f"[{0.4 * GIB / processors}]"}
            used = {"memory": kept, "runtime": {"value": 1800.0, "forecast": 1800.0, "bound": 2000.0}}
            make.job(connection, f"{day}.{number}", on={"a": processors}, used=used, **times, **request)
        for queue in ("one", "two"):
            times = {"submitted": at, "start": at, "end": at + 60.0}
            make.job(connection, f"{day}.{queue}", on={"b": 3}, queue=queue, processors=3, user="bob", **times)


def test_waits_of_a_site_worked_out_by_hand(
    engine: Engine, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with engine.begin() as connection:
        site(connection)
        machines = site_machines(connection, Part())
    assert [machine.name for machine in machines] == ["alpha fat", "alpha one+two"]
    assert [machine.nodes.processors.tolist() for machine in machines] == [[4.0], [6.0]]
    found = make.json_of(main, capsys, "simulate", database_url, "--plot", tmp_path / "plots")
    assert (tmp_path / "plots" / "waiting.svg").read_text().count("both by Jobsight") == 2
    assert [(of["name"], of["memory_bytes"]) for of in found["machines"]] == [
        ("alpha fat", 8 * GIB), ("alpha one+two", None),
    ]  # fmt: skip
    assert found["assumed"] == {
        "request no run time: EASY takes the machine's longest": 70, "request no memory: none is reserved": 70,
    }  # fmt: skip
    rules: dict[str, Any] = found["rules"]
    # Of five jobs a day one waited an hour; by request, the third fits into a's memory when the first two end.
    assert rules["recorded"]["mean_wait_s"] == pytest.approx([720.0, 720.0, 720.0])
    assert rules["as requested"]["mean_wait_s"] == pytest.approx([360.0, 360.0, 360.0])
    assert rules["as requested"]["mean_bounded_slowdown"] == pytest.approx((4 + 2) / 5)
    assert rules["memory by Jobsight"]["wait_of_replay"] == [0.0, 0.0, 0.0]
    assert rules["memory by Jobsight"]["killed"] == 0
    # The last two are known from the second day on; a third of each job's request until then.
    assert rules["memory by last two"]["mean_wait_s"][0] == pytest.approx(360.0 / 35)
    assert found["replay"]["overtaken"] == 0.0
    assert found["replay"]["room_while_waiting"] == 1.0  # of processors: memory was the limit
    part = make.json_of(main, capsys, "simulate", database_url, "--since", "1970-02-01")
    assert part["jobs"] == 5 * 15
    assert part["rules"]["recorded"]["mean_wait_s"] == [pytest.approx(720.0), None, None]


def test_the_page_and_a_trace(engine: Engine, database_url: str, tmp_path: Path, capsys: Any) -> None:
    with engine.begin() as connection:
        site(connection)
    assert main(["simulate", database_url]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    assert "Queues with + share nodes and are replayed as one machine" in words
    assert "The replay as requested explains the record: mean wait 0.10 h in the replay, 0.20 h in the record" in words
    assert "Memory by Jobsight: jobs wait 100 % less (95 % sure). By the user's last two jobs: 97 % less" in words
    assert main(["export", "jobs", str(tmp_path / "t.swf"), "--database", database_url]) == 0
    capsys.readouterr()
    trace = make.json_of(main, capsys, "simulate", tmp_path / "t.swf", "--memory", "--classes", "9x4096M")
    assert trace["rules"]["recorded"]["mean_wait_s"] == pytest.approx([720.0, 720.0, 720.0])
    assert trace["machines"] == [
        {"name": "9x4096M", "nodes": 9, "processors": 9, "memory_bytes": 36 * GIB, "jobs": 175},
    ]  # fmt: skip
    few = make.json_of(main, capsys, "simulate", database_url, "--classes", "1x4096M")
    assert few["assumed"]["have more processors than their nodes: left out"] == 105
    assert main(["simulate", database_url, "--plot", str(tmp_path / "t.swf")]) == 1
    assert "t.swf is a file; name a directory" in capsys.readouterr().err
    assert main(["simulate", database_url, "--classes", "4x"]) == 1
    assert "--classes: node class '4x': give COUNTxMEMORYM" in capsys.readouterr().err


def test_a_replay_without_waits_shows_nothing(tmp_path: Path, capsys: Any) -> None:
    idle, log = f"sqlite:///{tmp_path / 'idle.db'}", Path(__file__).parents[3] / "examples" / "accounting" / "20261101"
    assert main(["import", "torque", str(log), "--cluster", "a", "--database", idle]) == 0
    assert main(["simulate", idle]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "Nothing shows whether the replay explains the record, as all jobs wait alike in one of them" in words
    assert "Run times: no job waits in the replay" in words


def test_what_came_later_changes_nothing_before(engine: Engine, database_url: str, capsys: Any) -> None:
    """The rules read stored forecasts: the use and the run time of a job act only on what follows its end."""
    with engine.begin() as connection:
        site(connection)
    before = make.json_of(main, capsys, "simulate", database_url, "--until", "1970-02-01")
    with engine.begin() as connection:
        connection.exec_driver_sql(f'UPDATE jobs SET "end" = "end" + 900 WHERE start > {1e6 + 22 * DAY_S}')
        connection.exec_driver_sql(f"UPDATE profiles SET value = 3 * value WHERE run_id > {22 * 5}")
    after = make.json_of(main, capsys, "simulate", database_url, "--until", "1970-02-01")
    assert after == before
