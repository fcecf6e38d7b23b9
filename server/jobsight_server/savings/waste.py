"""Requested and unused resources: memory, idle processors, time limits; in a span of days beside an earlier one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sqlalchemy import Connection

from jobsight_server.ground.answers import Record
from jobsight_server.ground.listing import Asked, Listing, ListPage
from jobsight_server.ground.parameters import NAME, OF_DAYS, Parameter, choice_of, range_parameters
from jobsight_server.savings.savings import (
    BY,
    LISTED,
    Asking,
    LeftOut,
    Saved,
    SavingsRow,
    counted_applications,
    saving_row,
)
from jobsight_server.savings.sums.add import COLUMNS, METRICS, JobSums
from jobsight_server.savings.sums.kept import Date, GroupName, date_text, known_ids
from jobsight_server.savings.sums.read import (
    Days,
    saved_amounts,
    stored_days,
    sums_of_all,
    widened,
    within,
)

RESOURCES = {"memory": "memory", "processors": "cpu", "runtime": "runtime"}
"""Resource that can be wasted -> the metric of its sums."""

_MEASURED = RESOURCES | {"gpus": "gpu_utilisation"}

_BY_FIGURE = ("", "_share", "_improved")
RANGE = "30d"
WASTE = Listing(
    (
        *(f"{resource}{figure}" for resource in RESOURCES for figure in _BY_FIGURE),
        *(f"{metric}_freed" for metric in METRICS),
        "jobs",
        "name",
    ),
    lowest_first=("name",),
    steady=("name",),
    rows=LISTED,
    is_searched=False,
    filters=(
        Parameter("by", f"one row for each of these (default {BY[0]})", choice_of(BY)),
        Parameter("user", "only this user's jobs", NAME),
    ),
    span=range_parameters(RANGE, OF_DAYS),
)


class Waste(Saved):
    """One resource, with what was left of it.

    ``unused_hours`` are the requested ones less the used ones, negative if jobs used more. For ``runtime`` they are
    limits less run times: a job returns its processors at its end, before its limit. ``before_*``: the same in the
    earlier span, null without such jobs. ``improved_hours``: how much more would be unused now at the earlier share.
    """

    unused_hours: float
    unused_share: float | None
    before_unused_share: float | None
    improved_hours: float | None


class WasteRow(Record):
    """One user, application, queue, account or cluster: ``name``. ``jobs``: all that ended in the span.

    Rows of one user's jobs have ``memory_advice`` and ``runtime_advice``.
    """

    cluster: str
    name: str
    jobs: int
    memory: Waste
    processors: Waste
    runtime: Waste
    gpus: Waste
    memory_advice: SavingsRow | None
    runtime_advice: SavingsRow | None


class WasteList(ListPage):
    """Jobs that ended from ``first_day`` to ``last_day`` (UTC), compared with those of as many days from
    ``before_first_day`` on; null without counted jobs. ``left_out``: jobs that count nowhere, by resource.

    ``memory``, ``processors``, ``runtime`` and ``gpus`` cover all rows.
    """

    by: str
    cluster: str | None
    user: str | None
    first_day: Date | None
    last_day: Date | None
    before_first_day: Date | None
    before_last_day: Date | None
    memory: Waste
    processors: Waste
    runtime: Waste
    gpus: Waste
    left_out: dict[str, LeftOut]
    rows: list[WasteRow]


DAYS_SHOWN = 30


_Name = tuple[str, str]
_Sums = Mapping[_Name, Any]
"""``JobSums``, or the sums of fewer columns in their order."""
_NONE = JobSums()
_BEFORE = ("requested", "used")
"""Sums of the earlier span."""
_RANKED = ("jobs", *_BEFORE, "request_held", "bound_held")
"""Sums that order rows."""


def newest_day(connection: Connection) -> int | None:
    """Return the last day with a counted job."""
    stored = stored_days(connection)
    return None if stored is None else stored.last


def comparable(connection: Connection) -> dict[str, str]:
    """Return ``since`` and ``until`` of the longest range with as many days of counted jobs before it.

    Empty with only one day.
    """
    stored = stored_days(connection)
    half = 0 if stored is None else (stored.last - stored.first + 1) // 2
    return {"since": date_text(stored.last - half + 1), "until": date_text(stored.last)} if stored and half else {}


def waste(connection: Connection, asking: Asking, asked: Asked, span: Days) -> WasteList:
    """Return one page of rows; those without a sort value are last. A ``user`` needs the ``cluster``, too."""
    stored, by, user = stored_days(connection), asked.of["by"] or BY[0], asked.of["user"]
    days = within(span, stored)
    before_days = _before(days, stored)
    read = partial(_sums, asking, stored, asked.cluster, user)
    # Of thousands of groups, all of which have run times, few are shown with all of their sums.
    resource, _, figure = asked.sort.partition("_")
    of_all = {"runtime": ("jobs",), resource: _RANKED} if resource in _MEASURED else dict.fromkeys(_MEASURED, COLUMNS)
    now = {each: read(by, each, days, columns) for each, columns in of_all.items()}
    then = {resource: read(by, resource, before_days, _BEFORE) if figure == "improved" else {}}
    all_names = dict.fromkeys(name for sums in now.values() for name in sums)
    values = _values(resource, figure, now, then, all_names)
    position, names = asked.page_of(all_names, values.get, lambda name: (name[1], name[0]))
    groups = [GroupName("", "", "", "", "")._replace(**{"cluster": name[0], by: name[1]}) for name in names]
    ids = None if user is not None else known_ids(connection, groups).values()
    now = {each: read(by, each, days, ids=ids) for each in _MEASURED}
    then = {each: read(by, each, before_days, _BEFORE, ids) for each in _MEASURED}
    of_days = days and stored and widened(days, stored)
    advice = _advice(asking, by, user, of_days, now, names)
    shown = [
        WasteRow(
            cluster=name[0],
            name=name[1],
            jobs=_jobs(now["processors"].get(name, _NONE)),
            **{each: _waste(each, now[each].get(name), then[each].get(name)) for each in _MEASURED},
            memory_advice=advice.get(("memory", name)),
            runtime_advice=advice.get(("runtime", name)),
        )
        for name in names
    ]
    level = "cluster" if user is None else by  # a user's sums by any noun have all of the user's jobs
    totals = {each: JobSums._make(_total(_NONE, read(level, each, days))) for each in _MEASURED}
    before = {each: _total(_NONE[: len(_BEFORE)], read(level, each, before_days, _BEFORE)) for each in _MEASURED}
    wasted: dict[str, Any] = {each: _waste(each, totals[each], before[each]) for each in _MEASURED}
    return WasteList(
        *position,
        by=by,
        cluster=asked.cluster,
        user=user,
        first_day=days and date_text(days.first),
        last_day=days and date_text(days.last),
        before_first_day=before_days and date_text(before_days.first),
        before_last_day=before_days and date_text(before_days.last),
        **wasted,
        left_out={
            each: LeftOut(**{name: int(getattr(sums, name)) for name in LeftOut.__struct_fields__})
            for each, sums in totals.items()
            if each in RESOURCES
        },
        rows=shown,
    )


def _before(days: Days | None, stored: Days | None) -> Days | None:
    """Return as many days before; None unless all of them are stored."""
    if days is None or stored is None:
        return None
    first = 2 * days.first - days.last - 1
    return Days(first, days.first - 1) if first >= stored.first else None


def _sums(
    asking: Asking,
    stored: Days | None,
    cluster: str | None,
    user: str | None,
    by: str,
    resource: str,
    days: Days | None,
    columns: Sequence[str] = COLUMNS,
    ids: Collection[int] | None = None,
) -> _Sums:
    if days is None or stored is None:
        return {}
    metric, whole, make = _MEASURED[resource], widened(days, stored), JobSums._make if columns == COLUMNS else tuple
    if user is not None and cluster is not None:
        of_user = asking.sums_of_user(metric, whole, by, cluster, user)
        return {name: make([getattr(sums, column) for column in columns]) for name, sums in of_user.items()}
    rows = sums_of_all(asking.connection, metric, whole, by, cluster, columns, ids)
    return {(place, name): make(sums) for place, name, *sums in rows}


def _waste(resource: str, now: JobSums | None, before: Sequence[float] | None) -> Waste:
    # Processors and GPUs are counted in the unit of run time.
    metric = "memory" if resource == "memory" else "runtime"
    found = saved_amounts(now or _NONE, metric)
    share = _unused_share(found.requested_hours, found.used_hours)
    before_share = _unused_share(*before) if before else None
    measured = found._fields if resource in METRICS else ("jobs", "requested_hours", "used_hours")
    of_all: dict[str, Any] = {name: of if name in measured else None for name, of in found._asdict().items()}
    return Waste(
        **of_all,
        unused_hours=found.requested_hours - found.used_hours,
        unused_share=share,
        before_unused_share=before_share,
        improved_hours=None
        if share is None or before_share is None
        else (before_share - share) * found.requested_hours,
    )


def _unused_share(requested: float, used: float) -> float | None:
    return (requested - used) / requested if requested > 0 else None


def _jobs(sums: JobSums) -> int:
    return int(sum(getattr(sums, name) for name in ("jobs", *LeftOut.__struct_fields__)))


def _total(none: Sequence[float], sums: _Sums) -> Sequence[float]:
    total: list[float] = np.array([none, *sums.values()], dtype=np.float64).sum(axis=0).tolist()
    return total


def _advice(
    asking: Asking, by: str, user: str | None, days: Days | None, sums: Mapping[str, _Sums], names: Sequence[_Name]
) -> dict[tuple[str, _Name], SavingsRow]:
    """Return the recommended requests by metric and row, of rows that have jobs with savings, all of one user."""
    if days is None or (by != "user" and user is None):
        return {}

    def user_of(name: _Name) -> str:
        return name[1] if by == "user" else user or ""

    rows = {
        (metric, name): found
        for metric in METRICS
        for name in names
        if (found := sums[metric].get(name)) is not None and found.jobs
    }
    counted = {
        (metric, name): counted_applications(asking, by, user_of(name), metric, days, name, found)
        for (metric, name), found in rows.items()
    }
    asking.prepare((name[0], user_of(name), of[0][0][1]) for (_, name), of in counted.items())
    return {
        (metric, name): saving_row(asking, user_of(name), metric, name, rows[metric, name], of)
        for (metric, name), of in counted.items()
    }


def _values(
    resource: str, figure: str, now: Mapping[str, _Sums], then: Mapping[str, _Sums], names: Iterable[_Name]
) -> dict[_Name, Any]:
    """Return the groups' sort values, amounts in units of the sums; only the shown ones of thousands become rows."""
    if resource == "name":
        return {name: name[1] for name in names}
    if resource == "jobs":
        return {name: _jobs(now["processors"].get(name, _NONE)) for name in names}
    counted = {name: of for name, (jobs, *of) in now[resource].items() if jobs}
    if figure == "freed":
        return {name: request_held - bound_held for name, (_, _, request_held, bound_held) in counted.items()}
    if not figure:
        return {name: requested - used for name, (requested, used, *_) in counted.items()}
    shares = {name: _unused_share(requested, used) for name, (requested, used, *_) in counted.items()}
    if figure == "share":
        return shares
    earlier = {name: _unused_share(*of) for name, of in then[resource].items()}
    return {
        name: None if share is None or (before := earlier.get(name)) is None else (before - share) * counted[name][0]
        for name, share in shares.items()
    }
