"""From counters to a forecast on an emulated site: two clusters of 32 nodes over four weeks, a reading a minute.

    python examples/demo.py [--once]

Uses the ordinary interfaces: batches over HTTP, TORQUE accounting files, profiles, forecasts. Shows the accuracy of the
forecasts, then continues in real time with the dashboard until Ctrl-C (--once: ends there).
The site of the last run, in the same directory, is erased first.
The exit status is not 0 if anything was lost on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from account import take_account
from account_tables import show
from jobsight_emulator.plan import CHANGED
from jobsight_server.ground.amounts import percent
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.engine import open_engine
from ports import USUAL, choose
from site_run import Site, wait_until
from truth import Verdict, judge

CLUSTERS = ("alpha", "beta")
INTERVAL_S = 60
LIVE_S = 86_400
# The readings of a job that has just ended may still be under way.
JUST_ENDED_S = 4 * INTERVAL_S
# Profiling seldom, and many jobs at once, takes less.
SETTINGS = ("--follow-interval-s", "1", "--profile-grace-s", "120")
# Many connections, as a site's agents have: the server commits together what waits together. A batch of four hours,
# as after an outage: four weeks are sent in a minute or two.
DELIVERY = ("--connections", "16", "--batch", "260")
# Incidents to find: nodes that reboot every few hours, one that falls silent, a user whose jobs change.
FINDINGS = ("--unreliable", "0.06", "--incidents", "--cgroups")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--once", action="store_true", help="end after the tables instead of continuing in real time")
    parser.add_argument("--weeks", type=float, default=4.0, help="emulated time (default %(default)g)")
    parser.add_argument("--nodes", type=int, default=64, help="emulated nodes (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the site (default %(default)s)")
    parser.add_argument("--listen", metavar="HOST:PORT", help=f"dashboard (default: {USUAL}, or the next free one)")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("demo-site"),
        help="directory of the site; the previous one is erased (default %(default)s)",
    )
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # via the context managers, which stop the site
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    console = Console()
    listen = choose(args.listen)  # before the last demo's directory is deleted
    clear(args.directory, console)
    began = time.monotonic()
    site = Site(args.directory.resolve(), CLUSTERS, listen, SETTINGS)
    with site.serve(), replaying(site, args) as process:
        summary = wait_for_replay(site, process, args, console)
        faults = settle(site, summary, console)
        show(take_account(open_engine(site.database, "read")), console)
        verdict = judge(open_engine(site.database, "read"), settled_truth(site, summary), INTERVAL_S)
        faults += held_against_truth(summary, verdict, console)
        console.print(f"\n{time.monotonic() - began:.0f} s in all. Everything is in {args.directory}/.")
        for fault in faults:
            console.print(f"[bold red]lost:[/] {fault}")
        if not args.once:
            stay(site, process, console)
    return 1 if faults else 0


def clear(directory: Path, console: Console) -> None:
    """Empty the directory; erase the site of the last run, and say so.

    Raises:
        UserError: its content is not from a demo.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        if not (directory / "accounting").is_dir():
            raise UserError(f"{directory} is not the site of a demo; choose another --directory, or remove it")
        console.print(f"Erasing the site of the last demo, {directory}/: database, accounting files and logs.")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)


def replaying(site: Site, args: argparse.Namespace) -> Any:
    """Start the replay of the site; without --once it continues in real time from the present on."""
    options = ("--nodes", str(args.nodes), "--clusters", str(len(CLUSTERS)), "--weeks", f"{args.weeks:g}")
    return site.replay(
        *options, *DELIVERY, *FINDINGS, "--seed", str(args.seed), *(() if args.once else ("--live", str(LIVE_S)))
    )


def wait_for_replay(
    site: Site, process: subprocess.Popen[str], args: argparse.Namespace, console: Console
) -> dict[str, Any]:
    """Wait until the replay has reached the present; return its summary."""
    ends = time.time()
    with progress_of(f"Replaying {args.nodes} nodes, {args.weeks:g} weeks", console) as show_progress:
        while process.poll() is None:
            progress = site.progress()
            begun = ends - args.weeks * 7 * 86_400
            show_progress((progress["emulated_time"] - begun) / (ends - begun), progress["readings"])
            if progress["present"] is not None:
                break
            time.sleep(0.3)
        progress = site.progress()
        show_progress(1.0, progress["readings"])
    if progress["present"] is not None:
        return dict(progress["present"])
    assert process.stdout is not None
    output = process.stdout.read()
    if process.wait() != 0 and not output:
        raise SystemExit(f"demo: the replay ended with status {process.returncode}:\n{site.replay_log.read_text()}")
    return dict(json.loads(output))


@contextmanager
def progress_of(description: str, console: Console) -> Iterator[Callable[[float, int], None]]:
    """Show (share, readings): a bar on a terminal, elsewhere a plain line every 5 %."""
    if not console.is_terminal:
        reached = -1

        def line(share: float, readings: int) -> None:
            nonlocal reached
            step = int(max(0.0, min(share, 1.0)) * 20)
            if step > reached:
                reached = step
                print(f"{description}: {step * 5} %, {readings:,} readings", flush=True)

        yield line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TextColumn("{task.fields[readings]:,} readings"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(description, total=1.0, readings=0)
        yield lambda share, readings: bar.update(task, completed=share, readings=readings)


def settled_truth(site: Site, summary: dict[str, Any]) -> list[dict[str, str]]:
    """Return the true runs with all readings: not those on a node that had fallen silent."""

    def is_read(row: dict[str, str]) -> bool:
        end, silent = float(row["end"]), summary["silent"]
        return end <= summary["reached"] - JUST_ENDED_S and all(
            end < silent[node] for node in row["nodes"].split("+") if node in silent
        )

    return [row for row in site.truth() if is_read(row)]


def settle(site: Site, summary: dict[str, Any], console: Console) -> list[str]:
    """Wait until all jobs are profiled; return what was lost between the replay and the database."""
    ended = len({(row["cluster"], row["job_id"], row["start"]) for row in settled_truth(site, summary)})
    console.print(f"Profiling the last of {ended:,} jobs.")
    try:
        wait_until(lambda: site.settled(ended), 300, lambda: f"jobs: {site.api('now')['runs']}", pause_s=0.5)
    except TimeoutError as error:
        return [f"not all of {ended} jobs were profiled; {error}"]
    counts = site.counts()
    answered = sum(counts[f"batches_{name}"] for name in ("stored", "duplicate", "quarantined", "rejected"))
    faults = []
    if not summary["delivered"]:
        faults.append(f"the replay could not deliver everything: {summary['failure'] or summary['refused']}")
    if counts["batches_received"] != answered:
        faults.append(f"{counts['batches_received']} batches received, {answered} accounted for")
    stored, made = counts["samples_stored"], summary["readings_made"]
    # After the present is reached, more readings arrive meanwhile.
    if stored < made or (stored > made and site.progress()["present"] is None):
        faults.append(f"{made} readings made, {stored} stored")
    rejected = [entry for entry in site.api("rejected")["rejected"] if entry["value"]]
    if rejected:
        faults.append(f"rejected: {rejected}")
    return faults


def held_against_truth(summary: dict[str, Any], verdict: Verdict, console: Console) -> list[str]:
    """Print how well measured values agree with the true ones, and how many are missing."""
    console.print(
        f"\n{summary['readings_made']:,} readings in {summary['requests']:,} requests; "
        f"{summary['readings_lost_on_purpose']:,} more were lost on purpose. "
        f"Measured, against what the {verdict.judged:,} longer jobs on nodes of their own really used:"
    )
    faults = [f"{len(verdict.missing_runs)} runs have no profile, first {verdict.missing_runs[:3]}"]
    faults = faults if verdict.missing_runs else []
    for metric in ("bandwidth", "memory"):
        console.print(
            f"  {metric}: {verdict.within[metric]:,} of {verdict.valued[metric]:,} values within 1 % "
            f"({percent(verdict.share(metric), 2)}); {verdict.judged - verdict.valued[metric]} have none"
        )
        if verdict.share(metric) < 0.99:
            faults.append(f"{metric}: only {percent(verdict.share(metric), 2)} within 1 %; worst {verdict.worst[:3]}")
    for reason, count in verdict.reasons.most_common():
        console.print(f"  no value, {count} times: {reason}")
    if verdict.unexplained:
        faults.append(f"{len(verdict.unexplained)} values are missing without a reason")
    return faults


def stay(site: Site, process: subprocess.Popen[str], console: Console) -> None:
    """Print the address and leave the site running until Ctrl-C."""
    nodes = site.api("now")["nodes"]
    console.print(f"\n{nodes['up']} of {nodes['total']} nodes are up: the emulated agents now send in real time.")
    console.print(
        "To find in the dashboard: a node whose readings ended five hours ago, and what became of the forecasts for "
        f"{CHANGED}."
    )
    console.print("Dashboard, by a one-time login, valid for an hour:")
    console.print(site.login_link(), style="bold", soft_wrap=True)
    console.print(f"A user with a long history: {site.url}{best_known_user(site)}", soft_wrap=True)
    console.print(
        f"Ctrl-C ends the site; so does `kill {os.getpid()}` from another terminal. Its files stay until the next demo."
    )
    try:
        while site.process is not None and site.process.poll() is None and process.poll() is None:
            time.sleep(0.5)
    except KeyboardInterrupt:
        console.print("Stopping.")
        return
    console.print(f"A part of the site has ended; see {site.log} and {site.replay_log}. Stopping.")


def best_known_user(site: Site) -> str:
    """Return the page of the user with the most learned jobs in every metric, whose charts are all full."""

    def fewest(user: dict[str, Any]) -> int:
        known = site.api("user", cluster=user["cluster"], name=user["user"])["metrics"]
        return min(answer["user_jobs"] for answer in known)

    user = max(site.api("users", sort="jobs", limit=20)["users"], key=fewest)
    return f"/user?cluster={user['cluster']}&name={user['user']}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (UserError, OSError) as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
