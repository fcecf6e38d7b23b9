"""``jobsight-agent replay``: its options, progress and summary."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from jobsight_agent.send import Target, TargetError
from jobsight_emulator.deliver import Delivery, DeliveryCounts, Live, Output, Progress, play
from jobsight_emulator.emulation import Emulation, make_emulation
from jobsight_emulator.plan import WEEK_S, EmulatorError, Faults, SitePlan

_INTERRUPTED = 130
# Time of the incidents before the end of the period.
_SILENT_S = 5 * 3600


# Flag, default, metavar, help; the type is that of the default.
_OPTIONS: tuple[tuple[str, int | float, int | float, str, str], ...] = (
    ("--nodes", 64, 100_000, "COUNT", "total number of nodes"),
    ("--clusters", 2, 1000, "COUNT", "number of clusters"),
    ("--weeks", 4.0, 520, "NUMBER", "length of the period"),
    ("--interval", 60, 300, "SECONDS", "between readings"),
    ("--seed", 1, 2**63, "NUMBER", "random seed; the same seed and end give the same site"),
    ("--live", 0, 520 * 7 * 86_400, "SECONDS", "then continue in real time for this long"),
    ("--unreliable", 0.0, 1, "SHARE", "share of the nodes that reboot every few hours and lose their jobs"),
    ("--connections", 2, 1000, "COUNT", "connections to the server"),
    ("--batch", 100, 5000, "COUNT", "readings per batch"),
)
"""Flag, default, most, and help; none is negative."""
_FILES = (
    ("--token-file", "FILE", True, "token of role agent"),
    ("--accounting-out", "DIR", True, "write accounting files here, in one directory per cluster"),
    ("--truth-out", "FILE", False, "write what each job really used to this file (default: DIR/truth.csv)"),
    ("--progress-out", "FILE", False, "write the progress to this file, as a line of JSON"),
)
_SWITCHES = (
    ("--incidents", "a node falls silent in the last hours, and a user's jobs change in the last third of the period"),
    ("--cgroups", "the agents read each job's cgroup, too"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay``."""
    parser.add_argument("--server", required=True, metavar="URL", help="address of the server's sample intake")
    parser.add_argument("--end", type=int, metavar="EPOCH", help="when the period ends (default: the last full minute)")
    for flag, default, _, metavar, about in _OPTIONS:
        about += f" (default: {default:g})"
        parser.add_argument(flag, type=type(default), default=default, metavar=metavar, help=about)
    for flag, metavar, required, about in _FILES:
        parser.add_argument(flag, type=Path, metavar=metavar, required=required, help=about)
    for flag, about in _SWITCHES:
        parser.add_argument(flag, action="store_true", help=about)


def run(args: argparse.Namespace) -> int:
    """Play the site; return 0 if everything that should have been delivered was, 130 when interrupted."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _emulate(args)
    except (EmulatorError, TargetError) as error:
        print(f"jobsight-agent replay: {error}", file=sys.stderr)
        return 2
    finally:
        signal.signal(signal.SIGTERM, before)


def _emulate(args: argparse.Namespace) -> int:
    end = int(time.time()) // 60 * 60 if args.end is None else args.end
    for flag, _, most, *_ in _OPTIONS:
        if not 0 <= (value := getattr(args, flag[2:])) <= most:
            raise EmulatorError(f"{flag} {value}: give 0 to {most:g}")
    for file in (args.progress_out, args.truth_out):
        if file is not None and file.exists() and not file.is_file():
            raise EmulatorError(f"{file}: it is not a regular file; name another")
    start = end - int(args.weeks * WEEK_S)
    faults = Faults(unreliable_nodes=args.unreliable, odd_names=False)
    if args.incidents:
        faults = replace(faults, silent_from=end - _SILENT_S, changed_from=end - (end - start) / 3)
    plan = SitePlan(args.nodes, args.clusters, start, end + args.live, args.interval, args.seed, faults, args.cgroups)
    target = Target(args.server, args.token_file, timeout_s=60.0, backoff_s=0.1, backoff_most_s=10.0)
    delivery = Delivery(target, args.connections)
    emulation = make_emulation(plan, args.batch)
    reporter = _Reporter(args.progress_out)
    failure: str | None = None

    def at_present(now: Progress) -> None:
        reporter.present = summarise(emulation, now, delivery.counts, None)
        reporter.write(now)

    live = Live(end, at_present) if args.live else None
    output = Output(emulation, args.accounting_out, args.truth_out or args.accounting_out / "truth.csv")
    progress = output.progress
    try:
        with delivery:
            play(emulation, delivery, output, reporter.report, live)
    except KeyboardInterrupt:
        failure = "interrupted"
    except (EmulatorError, TargetError) as error:
        failure = str(error)
    summary = summarise(emulation, progress, delivery.counts, failure)
    reporter.write(progress)
    print(json.dumps(summary, indent=2))
    if failure is not None:
        print(f"jobsight-agent replay: {failure}", file=sys.stderr)
    if failure == "interrupted":
        return _INTERRUPTED
    return 0 if summary["delivered"] else 1


def summarise(emulation: Emulation, progress: Progress, counts: DeliveryCounts, failure: str | None) -> dict[str, Any]:
    """Summarise an emulation. ``delivered``: every reading was acknowledged, none rejected, none stored twice."""
    delivered = (
        failure is None
        and counts.readings_acknowledged == progress.readings_made
        and not counts.refused
        and not counts.stored_twice
    )
    return {
        "delivered": delivered,
        "failure": failure,
        "silent": {
            node.name: node.silent_from
            for cluster in emulation.clusters
            for node in cluster.nodes
            if node.silent_from < emulation.plan.end
        },
        **asdict(progress),
        **{one.name: getattr(counts, one.name) for one in fields(counts)},
    }


class _Reporter:
    """Writes the progress to a file as a line of JSON, a few times a second at most.

    ``present`` is the summary when the emulation reached the present and continued in real time.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.present: dict[str, Any] | None = None
        self._last = 0.0

    def report(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last >= 0.2:
            self._last = now
            self.write(progress)

    def write(self, progress: Progress) -> None:
        if self._path is None:
            return
        line = {
            "emulated_time": progress.reached,
            "readings": progress.readings_made,
            "present": self.present,
        }
        fresh = self._path.with_name(self._path.name + ".new")
        fresh.write_text(json.dumps(line) + "\n", encoding="utf-8")
        fresh.replace(self._path)
