"""What each kind of alarm looks at: the subjects for which it holds now, with what is wrong in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType

from sqlalchemy import Connection, delete, func, insert, select

from jobsight_server.queries.freshness import seen_at
from jobsight_server.queries.rejected import rejections
from jobsight_server.queries.running_out import running_out
from jobsight_server.queries.trust import TrustRequest, newest_day, trust
from jobsight_server.settings.alarms import AlarmRule
from jobsight_server.storage.event_counts import read_event_counts
from jobsight_server.storage.schema import alarm_readings, nodes
from jobsight_server.storage.server_states import trend

Found = dict[str, str]
"""Subject -> what is wrong."""

_WINDOW_S = 3600.0
_TRUST_DAYS = 56
_PROMISED = 0.95  # of bounds held, which is not read here
_FREE_AT_LEAST_BYTES = 2**30


def conditions(connection: Connection, rule: AlarmRule, now: float) -> Found:
    """The subjects of the rule that are wrong now."""
    return _KINDS[rule.kind](connection, rule.above, now)


def _silent_nodes(connection: Connection, above_s: float, now: float) -> Found:
    of_nodes = (nodes.c.cluster, nodes.c.name, nodes.c.received_at, nodes.c.last_time, nodes.c.clock_skew_s)
    ages = {
        f"{cluster}/{name}": now - seen_at(*times) for cluster, name, *times in connection.execute(select(*of_nodes))
    }
    return {name: f"silent for {age_s / 60:.0f} min" for name, age_s in ages.items() if age_s > above_s}


def record_rejected(connection: Connection, now: float) -> None:
    """Stores how much was rejected until now, for the rate, and forgets what is older than needed."""
    total = sum(count.value for count in rejections(read_event_counts(connection)))
    connection.execute(delete(alarm_readings).where(alarm_readings.c.time < now - 2 * _WINDOW_S))
    connection.execute(delete(alarm_readings).where(alarm_readings.c.time >= now))
    connection.execute(insert(alarm_readings).values(time=now, rejected=total))


def _rejected(connection: Connection, above: float, now: float) -> Found:
    """Over the last hour, or since the first reading; a restored database may have counted less since."""
    of_hour = select(func.min(alarm_readings.c.rejected), func.max(alarm_readings.c.rejected))
    least, most = connection.execute(of_hour.where(alarm_readings.c.time >= now - _WINDOW_S)).one()
    number = (most or 0) - (least or 0)
    return {"data": f"{number} rejected within an hour; the page Rejected data says why"} if number > above else {}


def _disk(connection: Connection, above_s: float, now: float) -> Found:
    found = trend(connection, now)
    free = found.now.free_bytes
    if free is None:
        return {}
    if free < _FREE_AT_LEAST_BYTES:
        return {"database": f"{free / 2**20:.0f} MiB are free on its disk"}
    growth = found.growth_bytes_s
    if growth is not None and growth > 0 and free / growth < above_s:
        return {"database": f"its disk is full in {free / growth / 86400:.1f} days"}
    return {}


def _forecasts(connection: Connection, _above: float, now: float) -> Found:
    last = newest_day(connection)
    if last is None:
        return {}
    found = trust(connection, TrustRequest(last - _TRUST_DAYS + 1, last, by="cluster"), _PROMISED, now)
    return {
        f"{row.cluster}/{row.metric}": f"less accurate since {row.first_bad_day}: {row.accuracy_since:.2f}, "
        f"before {row.accuracy_before:.2f}"
        for row in found.rows
        if row.first_bad_day is not None
    }


def _jobs(connection: Connection, above_s: float, now: float) -> Found:
    wrong: dict[str, list[str]] = defaultdict(list)
    users: dict[str, str] = {}
    for each in running_out(connection, now, above_s):
        subject = f"{each.cluster}/{each.job_id}"
        users[subject] = each.user
        said = f"{max(0.0, each.in_s or 0.0) / 60:.0f} min until its time limit"
        if each.resource == "memory":
            said = f"holds {each.used:.0f} of the {each.limit or 0:.0f} bytes of memory requested"
        chance = "" if each.soon is None else f", runs out with a chance of {each.soon:.0%}"
        wrong[subject].append(said + chance)
    return {subject: f"job of {users[subject]}: {'; '.join(each)}" for subject, each in wrong.items()}


_KINDS: Mapping[str, Callable[[Connection, float, float], Found]] = MappingProxyType(
    {
        "node-silent": _silent_nodes,
        "rejected": _rejected,
        "disk": _disk,
        "forecasts": _forecasts,
        "job": _jobs,
    }
)
