"""From counters to a forecast on an emulated site: two clusters of 32 nodes over four weeks, a reading a minute.

    python examples/demo.py [--once]

Everything goes the ordinary way: batches over HTTP, TORQUE accounting files, profiles, forecasts. Ends with
a table of forecasts against what really happened, and leaves the dashboard on until Ctrl-C (--once: ends there).
The exit status is not 0 if anything was lost on the way.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from jobsight_server.errors import UserError
from jobsight_server.settings import check_addresses, split_address
from jobsight_server.storage.engine import open_engine
from site_run import Site, wait_until
from truth import Verdict, judge

CLUSTERS = ("alpha", "beta")
INTERVAL_S = 60
SETTINGS = ("--follow-interval-s", "1", "--profile-interval-s", "1", "--profile-grace-s", "120")
SCALES = {"bandwidth": ("Mb/s", 1e6), "memory": ("GiB", 2**30)}
METRICS = ("bandwidth", "memory", "cpu", "runtime")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo; 0 when nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--once", action="store_true", help="end after the table instead of leaving the site on")
    parser.add_argument("--weeks", type=float, default=4.0, help="emulated time (default %(default)g)")
    parser.add_argument("--nodes", type=int, default=64, help="emulated nodes (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another site for another seed (default %(default)s)")
    parser.add_argument("--listen", default="127.0.0.1:8470", help="address of the dashboard (default %(default)s)")
    parser.add_argument("--directory", type=Path, default=Path("demo-site"), help="made anew (default %(default)s)")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of the context managers, which stop the site
    console = Console()
    host, port = split_address(args.listen)
    check_addresses(args.listen, f"{host}:{port + 1}")  # before the last demo's directory is thrown away
    shutil.rmtree(args.directory, ignore_errors=True)
    args.directory.mkdir(parents=True)
    began = time.monotonic()
    site = Site(args.directory.resolve(), CLUSTERS, args.listen, SETTINGS)
    with site.serve():
        summary = run_replay(site, args, console)
        faults = settle(site, summary, console)
        verdict = judge(open_engine(site.database, "read"), site.truth(), INTERVAL_S)
        faults += show(site, summary, verdict, console)
        console.print(f"\n{time.monotonic() - began:.0f} s in all. Everything is in {args.directory}/.")
        for fault in faults:
            console.print(f"[bold red]lost:[/] {fault}")
        if not args.once:
            console.print("\nDashboard, by a one-time login that is good for an hour:")
            console.print(site.login_link(), style="bold", soft_wrap=True)
            console.print(f"A user of many kinds of job: {site.url}{busiest_user(site)}", soft_wrap=True)
            console.print("The emulated nodes have stopped sending, so they show as late. Ctrl-C ends the site.")
            try:
                while site.process is not None and site.process.poll() is None:
                    time.sleep(0.5)
            except KeyboardInterrupt:
                console.print("Stopping.")
    return 1 if faults else 0


def run_replay(site: Site, args: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Plays the site into the server, with a progress bar; the replay's summary."""
    options = ("--nodes", str(args.nodes), "--clusters", str(len(CLUSTERS)), "--weeks", f"{args.weeks:g}")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TextColumn("{task.fields[readings]:,} readings"),
        TimeElapsedColumn(),
    )
    description = f"Replaying {args.nodes} nodes, {args.weeks:g} weeks"
    with site.replay(*options, "--seed", str(args.seed)) as process, Progress(*columns, console=console) as bar:
        task = bar.add_task(description, total=1.0, readings=0)
        while True:
            try:
                output, _ = process.communicate(timeout=0.3)
                break
            except subprocess.TimeoutExpired:
                progress = site.progress()
                bar.update(task, completed=progress["fraction"], readings=progress["readings"])
        progress = site.progress()
        bar.update(task, completed=progress["fraction"], readings=progress["readings"])
    if process.returncode != 0 and not output:
        raise SystemExit(f"the replay ended with status {process.returncode} and said nothing; see above")
    return dict(json.loads(output))


def settle(site: Site, summary: dict[str, Any], console: Console) -> list[str]:
    """Waits until all jobs are profiled; what was lost between the replay and the database."""
    ended = len({(row["cluster"], row["job_id"], row["start"]) for row in site.truth()})
    with console.status(f"Profiling {ended:,} jobs"):
        try:
            wait_until(lambda: site.settled(ended), 300, lambda: f"jobs: {site.api('overview')['jobs']}")
        except TimeoutError as error:
            return [f"of {ended} jobs not all were profiled; {error}"]
    overview = site.api("overview")
    batches = {"duplicate": 0, "quarantined": 0, "rejected": 0, **overview["ingest"]["batches"]}
    answered = sum(batches[name] for name in ("stored", "duplicate", "quarantined", "rejected"))
    faults = []
    if not summary["delivered"]:
        faults.append(f"the replay could not deliver everything: {summary['failure'] or summary['refused']}")
    if batches["received"] != answered:
        faults.append(f"{batches['received']} batches received, {answered} accounted for")
    if overview["ingest"]["samples"] != summary["readings_made"]:
        faults.append(f"{summary['readings_made']} readings made, {overview['ingest']['samples']} stored")
    rejected = [entry for entry in overview["refused"] if entry["value"]]
    if rejected:
        faults.append(f"refused: {rejected}")
    return faults


def show(site: Site, summary: dict[str, Any], verdict: Verdict, console: Console) -> list[str]:
    """Prints the tables; what of the truth was missed."""
    console.print(forecast_table(site))
    console.print(answered_table(site))
    console.print(accuracy_table(site))
    console.print(
        f"{summary['readings_made']:,} readings in {summary['requests']:,} requests; "
        f"{summary['readings_lost_on_purpose']:,} more were lost on purpose. "
        f"Against the truth, {verdict.judged:,} jobs on exclusive nodes:"
    )
    faults = [f"{len(verdict.missing_runs)} runs have no profile, first {verdict.missing_runs[:3]}"]
    faults = faults if verdict.missing_runs else []
    for metric in ("bandwidth", "memory"):
        console.print(
            f"  {metric}: {verdict.within[metric]:,} of {verdict.valued[metric]:,} values within 1 % "
            f"({verdict.share(metric):.2%}); {verdict.judged - verdict.valued[metric]} have none"
        )
        if verdict.share(metric) < 0.99:
            faults.append(f"{metric}: only {verdict.share(metric):.2%} within 1 %; worst {verdict.worst[:3]}")
    for reason, count in verdict.reasons.most_common():
        console.print(f"  no value, {count} times: {reason}")
    if verdict.unexplained:
        faults.append(f"{len(verdict.unexplained)} values are missing without a reason")
    return faults


def forecast_table(site: Site) -> Table:
    """One row per kind of user: what was forecast for the last job, and what it used."""
    table = Table(title="Last jobs: forecast before they ran, and used, per processor", box=SIMPLE, padding=(0, 0))
    for column in ("user", "jobs", "metric", "forecast", "used", "off by", "reserved", "PQM"):
        table.add_column(column, justify="left" if column in {"user", "metric"} else "right", no_wrap=True)
    kinds: dict[str, dict[str, str]] = {}
    for row in site.truth():
        kinds.setdefault(row["kind"], row)
    for _, row in sorted(kinds.items()):
        profile = site.api(f"users/{row['user']}/profile", cluster=row["cluster"])
        for answer in profile["metrics"]:
            past = answer["history"]
            if answer["metric"] not in SCALES or not past["n"]:
                continue
            unit, scale = SCALES[answer["metric"]]
            forecast, used, bound = past["answered"][-1], past["actual"][-1], past["bound"][-1]
            if forecast is None:
                continue
            off = abs(forecast - used) / used if used else 0.0
            table.add_row(
                f"{row['cluster']}/{row['user']}", str(past["n"]), f"{answer['metric']}, {unit}",
                f"{forecast / scale:.2f}", f"{used / scale:.2f}", f"{off:.0%}", f"{bound / scale:.2f}",
                "-" if answer["pqm"] is None else f"{answer['pqm']:.2f}",
            )  # fmt: skip
    return table


def busiest_user(site: Site) -> str:
    """The page of the user with the most jobs."""
    user = site.api("users", sort="jobs", order="desc")["users"][0]
    return f"/users/{user['cluster']}/{user['user']}"


def answered_table(site: Site) -> Table:
    """How good the last answers were, per metric."""
    table = Table(title="The last answers, as they stood at submission", box=SIMPLE, padding=(0, 1, 0, 0))
    for column in ("metric", "jobs", "accuracy", "within 20 %", "fitted into the bound"):
        table.add_column(column, justify="left" if column == "metric" else "right", no_wrap=True)
    for row in site.api("overview")["answered"]:
        shares = (row[name] for name in ("accuracy", "within20", "coverage"))
        table.add_row(row["metric"], str(row["jobs"]), *("-" if share is None else f"{share:.3f}" for share in shares))
    return table


def accuracy_table(site: Site) -> Table:
    """Mean accuracy over all users of each forecaster, per metric."""
    table = Table(title="The five as jobs ended, mean over users of at least 10 jobs", box=SIMPLE, padding=(0, 0))
    users, page = [], 1
    while True:
        answer = site.api("users", page=str(page))
        users += answer["users"]
        if page >= answer["pages"]:
            break
        page += 1
    known = [u["metrics"]["memory"] for u in users if u["metrics"]["memory"]]
    names = list(known[0]["forecasts"]) if known else []
    for column in ("metric", "users", *names):
        table.add_column(column, justify="left" if column == "metric" else "right", no_wrap=True)
    for metric in METRICS:
        answers = [u["metrics"][metric] for u in users if u["metrics"][metric]]
        scored = [answer["accuracy"] for answer in answers if answer["user_jobs"] >= 10]
        if scored:
            table.add_row(
                metric, str(len(scored)), *(f"{statistics.mean(s[name] for s in scored):.3f}" for name in names)
            )
    return table


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"demo: {error}")
