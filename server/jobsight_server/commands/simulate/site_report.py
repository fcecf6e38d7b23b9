"""The page of text of ``jobsight simulate DATABASE``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.console import Console
from rich.text import Text

from jobsight_server.accounting.amounts import percent
from jobsight_server.command_line.tables import table_of
from jobsight_server.commands.simulate.site import LEAST_WEEKS, OURS, RECORD, REPLAY, SIMPLEST

HOUR_S = 3_600.0
GIB = 2.0**30
NOTE = (
    "Each line but the first replays the jobs. They reserve processors and memory of nodes, as requested or as "
    "forecast at their submission. EASY backfills by requested run times, or EASY++ by forecast ones. 95th: 95 of "
    "100 jobs are below. Change: of the mean wait, from the replay as requested. 95 % sure: by resampling weeks. "
    "Killed: had too little memory, and ran again with more. Slowdown: (wait + run) / run, of 10 s at least."
)


def show(account: Mapping[str, Any], console: Console) -> None:
    """Show the account in one page."""
    put = partial(console.print, highlight=False)
    first, last = (datetime.fromtimestamp(account[name], UTC).date() for name in ("since", "until"))
    put(Text(f"{account['trace']}: {account['jobs']:,} jobs submitted from {first} to {last} (UTC)", "bold"))
    machines = table_of(["machine"], ("nodes", "processors", "memory", "jobs"))
    for machine in account["machines"]:
        memory = machine["memory_bytes"]
        numbers = [f"{machine[name]:,}" for name in ("nodes", "processors", "jobs")]
        numbers.insert(2, f"{memory / GIB:,.0f} GiB" if memory else "unknown")
        machines.add_row(Text(machine["name"]), *numbers)
    put(machines)
    if any("+" in machine["name"] for machine in account["machines"]):
        put("Queues with + share nodes and are replayed as one machine, any job on any node; limits are not known.")
    for reason, count in account["assumed"].items():
        put(f"{count:,} jobs {reason}.")
    rules = account["rules"]
    waits = table_of(["waiting, hours"], ("mean", "95 % sure", "95th", "change", "95 % sure"))
    others = table_of(["other figures"], ("slowdown", "95th", "in use", "killed"))
    for name, row in rules.items():
        (mean, *sure), (ratio, *change_sure) = row["mean_wait_s"], row["wait_of_replay"]
        is_compared = name not in (RECORD, REPLAY) and ratio is not None
        change = (_change(ratio), _between(change_sure, _change)) if is_compared else ("", "")
        waits.add_row(name, _hours(mean), _between(sure, _hours), _hours(row["p95_wait_s"]), *change)
        slowdown = f"{row['mean_bounded_slowdown']:,.1f}", f"{row['p95_bounded_slowdown']:,.1f}"
        used = "" if row["utilisation"] is None else percent(row["utilisation"])
        others.add_row(name, *slowdown, used, "" if name == RECORD else f"{row['killed']:,}")
    put(waits)
    put(others)
    put(NOTE)
    if account["weeks"] < LEAST_WEEKS:
        put(f"Fewer than {LEAST_WEEKS} weeks: there is no interval, and the differences may be chance.")
    put(_trust(account), style="bold")
    for kind in ("run times", "memory", "both"):
        if f"{kind} by {OURS}" in rules:
            put(_conclusion(kind, rules))
    if f"memory by {OURS}" not in rules:
        put("The memory of nodes is unknown, so it limits nothing: --classes 512x32M,512x24M gives it to processors.")


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR_S:,.2f}"


def _change(ratio: float) -> str:
    return f"{ratio - 1.0:+.0%}"


def _between(ends: list[Any], shown: Any) -> str:
    return "" if ends[0] is None else f"{shown(ends[0])} to {shown(ends[1])}"


def _trust(account: Mapping[str, Any]) -> str:
    found, rules = account["replay"], account["rules"]
    recorded, replayed = (_hours(rules[name]["mean_wait_s"][0]) for name in (RECORD, REPLAY))
    alike = found["rank_correlation"]
    order = "" if alike is None else f"; rank correlation of waits {alike:.2f}"
    facts = f"mean wait {replayed} h in the replay, {recorded} h in the record{order}"
    if found["explains"] is None:
        return f"Nothing shows whether the replay explains the record, as all jobs wait alike in one of them: {facts}."
    if found["explains"]:
        return f"The replay as requested explains the record: {facts}."
    return (
        f"The replay as requested DOES NOT EXPLAIN THE RECORD: {facts}. So what it says of changes may not come true. "
        f"In the record, {percent(found['overtaken'])} of the jobs that waited were overtaken by later ones of other "
        "users that were as large and as long, as by priorities or fair share; and for "
        f"{percent(found['room_while_waiting'])} of the waiting time enough processors were free, as by reservations, "
        "limits, dependencies, memory, or nodes that were down."
    )


def _conclusion(kind: str, rules: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what Jobsight changes, and the simplest rule."""
    ours, simplest = (rules[f"{kind} by {by}"] for by in (OURS, SIMPLEST))
    if ours["wait_of_replay"][0] is None:
        return f"{kind.capitalize()}: no job waits in the replay, so nothing can shorten a wait there."

    def words(row: Mapping[str, Any]) -> str:
        ratio, low, high = row["wait_of_replay"]
        sure = "" if low is None else " (95 % sure)" if high < 1.0 or low > 1.0 else " (uncertain)"
        killed = f", {row['killed']:,} jobs killed" if row["killed"] else ""
        change = abs(round(100.0 * (ratio - 1.0)))
        less = f"{change} % {'less' if ratio < 1.0 else 'more'}{sure}" if change else "as long as requested"
        return f"{less}{killed}"

    return f"{kind.capitalize()} by Jobsight: jobs wait {words(ours)}. By the user's last two jobs: {words(simplest)}."
