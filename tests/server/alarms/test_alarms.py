"""Alarms begin once, end once, and reach a real web server and a real mail relay."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, insert, text

from jobsight_server.alarms import check
from jobsight_server.alarms.check import check_alarms
from jobsight_server.alarms.deliver import DeliveryError, call
from jobsight_server.queries.alarms import active_alarms
from jobsight_server.queries.prometheus import exposition
from jobsight_server.savings.totals import count_marked
from jobsight_server.settings import Settings, load_settings
from jobsight_server.settings.alarms import AlarmRule, Mail, Watchdog
from jobsight_server.settings.load import SettingsError
from jobsight_server.storage import schema
from jobsight_server.storage.event_counts import add_event_counts, mark_all, read_event_counts

from .receivers import Received, mail_relay, web_server

NOW = 1_700_000_000.0


@pytest.fixture
def web() -> Iterator[Received]:
    with web_server() as received:
        yield received


def node(engine: Engine, number: int, name: str, received_at: float) -> None:
    row = {
        "id": number, "cluster": "alpha", "name": name, "boot_id": "b", "cpus": 4, "memory_total_bytes": 2**34,
        "interfaces": "[]", "counters": "{}", "agent": "{}", "first_time": NOW, "last_time": NOW,
        "received_at": received_at, "clock_skew_s": 0.0, "samples": 1, "wraps": 0, "resets": 0, "boots": 1,
        "missing": 0,
    }  # fmt: skip
    with engine.begin() as connection:
        connection.execute(insert(schema.nodes).values(row))


def back(engine: Engine, now: float) -> None:
    with engine.begin() as connection:
        connection.execute(schema.nodes.update().values(received_at=now))


def plant(engine: Engine, last: int) -> None:
    """Eight weeks of forecasts of memory, off by 6 % until 12 days before their end, and by 45 % since."""
    with engine.begin() as connection:
        for day in range(56):
            for number in range(4):
                run, end = day * 4 + number + 1, (last - 55 + day) * 86400.0 + 3600.0 * (5 * number + 1)
                job = {"id": run, "cluster": "alpha", "job_id": f"{run}.s", "start": end - 600, "end": end}
                job |= {"state": "ended", "user": "kim", "processors": 2, "recorded_at": end, "profiled": True}
                off = (0.45 if day >= 44 else 0.06) * (-1) ** number
                profile = {"run_id": run, "metric": "memory", "learn_seq": run, "value": 2.0**30, "bound": 2.0**31}
                connection.execute(insert(schema.jobs).values(job))
                connection.execute(
                    insert(schema.profiles).values(**profile, forecast=2.0**30 * (1 + off), source="samples")
                )
        mark_all(connection)
    count_marked(engine)


def settings_for(web: Received, *kinds: str, **more: Any) -> Settings:
    rules = tuple(AlarmRule(kind=kind, webhook=f"http://127.0.0.1:{web.port}/hook") for kind in kinds)  # type: ignore[arg-type]
    return Settings(alarms=rules, **more)


def events(web: Received) -> list[tuple[str, str]]:
    return [(one["event"], one["subject"]) for post in web.posts for one in post["alarms"]]


def test_a_silent_node_is_reported_once_and_its_return_once(engine: Engine, web: Received) -> None:
    settings = settings_for(web, "node-silent")
    node(engine, 1, "n1", NOW)
    node(engine, 2, "n2", NOW + 7000)
    assert check_alarms(engine, settings, NOW + 3599)
    assert events(web) == []
    for later in (3601, 3661, 3721):
        assert check_alarms(engine, settings, NOW + later)
    assert events(web) == [("begin", "alpha/n1")]
    with engine.connect() as connection:
        found = active_alarms(connection, NOW)
        assert [(one.subject, one.since, one.is_sent) for one in found.alarms] == [("alpha/n1", NOW + 3601, True)]
        line = 'jobsight_alarm{kind="node-silent",rule="node-silent",subject="alpha/n1"} 1.0'
        assert line in exposition(connection, NOW).decode()
    back(engine, NOW + 3750)
    for later in (3781, 3841):
        check_alarms(engine, settings, NOW + later)
    assert events(web) == [("begin", "alpha/n1"), ("end", "alpha/n1")]
    (end,) = web.posts[1]["alarms"]
    assert (end["since"], end["ended"]) == (NOW + 3601, NOW + 3781)
    check_alarms(engine, settings, NOW + 9000)
    assert events(web)[2:] == [("begin", "alpha/n1"), ("begin", "alpha/n2")]
    assert len({one["id"] for post in web.posts for one in post["alarms"]}) == 4


def test_a_receiver_that_fails_gets_it_later_and_failures_are_counted(engine: Engine, web: Received) -> None:
    settings = settings_for(web, "node-silent")
    node(engine, 1, "n1", NOW - 4000)
    for status in (500, 302, 404):
        web.status = status
        assert not check_alarms(engine, settings, NOW)
    back(engine, NOW + 60)
    assert not check_alarms(engine, settings, NOW + 60), "it ends before its beginning was delivered"
    assert not web.gets, "a redirect is not followed"
    web.status, web.posts[:] = 204, []
    assert check_alarms(engine, settings, NOW + 120)
    assert check_alarms(engine, settings, NOW + 180)
    assert events(web) == [("begin", "alpha/n1"), ("end", "alpha/n1")]
    with engine.connect() as connection:
        counts = read_event_counts(connection)
        assert counts["alarm_messages_failed", "node-silent: redirect refused"] == 1
        assert counts["alarm_messages_failed", "node-silent: status 404"] == 2
        assert counts["alarm_messages_sent", "node-silent"] == 1
        assert b'jobsight_alarm_messages_failed_total{reason="status 500",rule="node-silent"} 1.0' in exposition(
            connection, NOW
        )


def test_killed_between_sending_and_storing_it_is_sent_again_with_the_same_id(
    engine: Engine, web: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(web, "node-silent")
    node(engine, 1, "n1", NOW - 4000)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(check, "_sent", killed)
        with pytest.raises(KeyboardInterrupt):
            check_alarms(engine, settings, NOW)
    check_alarms(engine, settings, NOW + 60)
    check_alarms(engine, settings, NOW + 120)
    assert events(web) == [("begin", "alpha/n1")] * 2
    assert web.posts[0]["alarms"][0]["id"] == web.posts[1]["alarms"][0]["id"]


def test_the_watchdog_is_called_while_messages_arrive(engine: Engine, web: Received) -> None:
    settings = settings_for(web, "node-silent", watchdog=Watchdog(f"http://127.0.0.1:{web.port}/alive?id=1"))
    check_alarms(engine, settings, NOW)
    assert web.gets == ["/alive?id=1"]
    node(engine, 1, "n1", NOW - 4000)
    web.status = 500
    check_alarms(engine, settings, NOW + 60)
    assert len(web.gets) == 1


def test_data_rejected_above_a_rate_and_the_end_an_hour_later(engine: Engine, web: Received) -> None:
    settings = settings_for(web, "rejected")
    check_alarms(engine, settings, NOW)
    for later, number in ((600, 60), (1200, 60)):
        with engine.begin() as connection:
            add_event_counts(connection, {("batches_rejected", "too long"): number})
        check_alarms(engine, settings, NOW + later)
    assert events(web) == [("begin", "data")]
    assert "120 rejected" in web.posts[0]["alarms"][0]["detail"]
    for later in range(1800, 6000, 600):
        check_alarms(engine, settings, NOW + later)
    assert events(web) == [("begin", "data"), ("end", "data")]


def test_a_job_about_to_run_out_of_memory_or_time(engine: Engine, web: Received) -> None:
    settings = settings_for(web, "job")
    common = {"cluster": "alpha", "state": "running", "processors": 1, "recorded_at": NOW, "profiled": False}
    asked = {"requested_walltime_s": 7200.0, "requested_memory_bytes": 1000}
    with engine.begin() as connection:
        for number, (job_id, start, memory) in enumerate(
            (("fine", NOW - 100, 100.0), ("late", NOW - 5500, 100.0), ("full", NOW - 100, 950.0)), 1
        ):
            row = {"id": number, "job_id": job_id, "user": "ada", "start": start, **common, **asked}
            connection.execute(insert(schema.jobs).values(row))
            connection.execute(insert(schema.running_use).values(run_id=number, until=NOW, memory=memory))
    check_alarms(engine, settings, NOW)
    found = {one["subject"]: one["detail"] for one in web.posts[0]["alarms"]}
    assert found == {
        "alpha/late": "job of ada: 28 min until its time limit",
        "alpha/full": "job of ada: holds 950 of the 1000 bytes of memory requested",
    }
    with engine.begin() as connection:
        connection.execute(text("UPDATE jobs SET state = 'ended', \"end\" = :now"), {"now": NOW + 30})
    check_alarms(engine, settings, NOW + 60)
    assert sorted(events(web)[2:]) == [("end", "alpha/full"), ("end", "alpha/late")]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_disk_that_fills_and_one_that_lasts(engine: Engine, web: Received) -> None:
    """By the growth since the oldest state of the week; on this disk, so the limit is what is varied."""
    with engine.begin() as connection:
        before = {"time": NOW - 86400, "database_bytes": 1, "free_bytes": 2**40, "waiting": 0, "profiled": 0}
        connection.execute(insert(schema.server_states).values(before))
    hook = f"http://127.0.0.1:{web.port}/"
    short, long = (AlarmRule(kind="disk", name=str(limit), limit=limit, webhook=hook) for limit in (1.0, 1e15))
    check_alarms(engine, Settings(alarms=(short, long)), NOW)
    assert [post["rule"] for post in web.posts] == ["1000000000000000.0"]
    assert "full in" in web.posts[0]["alarms"][0]["detail"]


def test_forecasts_that_broke_name_the_first_bad_day(engine: Engine, web: Received) -> None:
    """Eight weeks of daily scores, from .94 to .55 twelve days before their end."""
    settings, last = settings_for(web, "forecasts"), int(NOW // 86400)
    check_alarms(engine, settings, NOW)
    assert events(web) == []
    plant(engine, last)
    check_alarms(engine, settings, NOW)
    assert events(web) == [("begin", "alpha/memory")]
    assert "0.55" in web.posts[0]["alarms"][0]["detail"]


def test_a_mail_by_the_sites_relay(engine: Engine) -> None:
    node(engine, 1, "n1\r\nBcc: x@example.org", NOW - 4000)
    with mail_relay() as relay:
        rule = AlarmRule(kind="node-silent", mail=("ops@example.org", "night@example.org"))
        settings = Settings(alarms=(rule,), mail=Mail(f"127.0.0.1:{relay.port}", "jobsight@example.org"))
        assert check_alarms(engine, settings, NOW)
        assert check_alarms(engine, settings, NOW + 60)
        ((sender, recipients, mail),) = relay.mails
    assert (sender, recipients) == ("jobsight@example.org", ["ops@example.org", "night@example.org"])
    assert "Subject: Jobsight: node-silent: 1 began, 0 ended" in mail
    assert "begin: alpha/n1??Bcc: x@example.org: silent for 67 min" in mail
    back(engine, NOW)
    assert not check_alarms(engine, settings, NOW + 120), "the relay is away"


def test_a_rule_that_is_removed_takes_its_alarms_with_it(engine: Engine, web: Received) -> None:
    node(engine, 1, "n1", NOW - 4000)
    check_alarms(engine, settings_for(web, "node-silent"), NOW)
    check_alarms(engine, settings_for(web, "rejected"), NOW + 60)
    with engine.connect() as connection:
        assert active_alarms(connection, NOW).alarms == []


def test_a_thousand_alarms_are_ten_messages(engine: Engine, web: Received) -> None:
    for number in range(1, 251):
        node(engine, number, f"n{number}", NOW - 4000)
    check_alarms(engine, settings_for(web, "node-silent"), NOW)
    assert [len(post["alarms"]) for post in web.posts] == [100, 100, 50]


def test_a_receiver_that_never_finishes_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobsight_server.alarms.deliver._WHOLE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            peer, _ = listener.accept()
            with peer:
                try:
                    while True:
                        peer.sendall(b"H")
                        time.sleep(0.05)
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(DeliveryError):
            call("GET", f"http://127.0.0.1:{listener.getsockname()[1]}/")
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ('[[alarms]]\nkind = "flood"', "write \\[\\[alarms\\]\\] tables with kind"),
        ('[[alarms]]\nkind = "disk"\nwebhook = "ftp://x"', "'ftp://x'"),
        ('[[alarms]]\nkind = "disk"\nwebhook = "http://x"\nmail = ["a@b"]', "not both"),
        ('[[alarms]]\nkind = "disk"\n[[alarms]]\nkind = "disk"', "two rules are called 'disk'"),
        ('[watchdog]\nurl = "x"', "http://"),
    ],
)
def test_a_bad_rule_is_refused_with_its_value(tmp_path: Path, tables: str, problem: str) -> None:
    file = tmp_path / "jobsight.toml"
    file.write_text(tables)
    with pytest.raises(SettingsError, match=problem):
        load_settings(file)


def test_rules_reach_the_background_process(tmp_path: Path) -> None:
    file = tmp_path / "jobsight.toml"
    file.write_text('[[alarms]]\nkind = "disk"\nlimit = 86400\nmail = ["ops@example.org"]\n')
    settings = load_settings(file)
    assert Settings.from_json(settings.to_json()) == settings
    assert json.loads(settings.to_json())["alarms"][0]["limit"] == 86400
