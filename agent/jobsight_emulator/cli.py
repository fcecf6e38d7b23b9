"""``jobsight-agent replay``: its options, progress and summary."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any

from jobsight_agent.send import Target, TargetError
from jobsight_emulator.deliver import Delivery, DeliveryCounts, Live, Output, Progress, play
from jobsight_emulator.emulation import Emulation, make_emulation
from jobsight_emulator.plan import WEEK_S, EmulatorError, Faults, SitePlan

_INTERRUPTED = 130
# Before the end of the period, where incidents are wanted.
_SILENT_S = 5 * 3600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``replay``."""
    parser.add_argument("--server", required=True, metavar="URL", help="address of the server's sample intake")
    parser.add_argument("--token-file", required=True, type=Path, metavar="FILE", help="token of role agent")
    parser.add_argument(
        "--nodes", type=int, default=64, metavar="COUNT", help="total number of nodes (default: %(default)s)"
    )
    parser.add_argument(
        "--clusters", type=int, default=2, metavar="COUNT", help="number of clusters (default: %(default)s)"
    )
    parser.add_argument(
        "--weeks", type=float, default=4.0, metavar="NUMBER", help="length of the period (default: %(default)g)"
    )
    parser.add_argument(
        "--interval", type=int, default=60, metavar="SECONDS", help="between readings (default: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="NUMBER",
        help="random seed; the same seed and end give the same site (default: %(default)s)",
    )
    parser.add_argument(
        "--live",
        type=int,
        default=0,
        metavar="SECONDS",
        help="then continue in real time for this long (default: %(default)s)",
    )
    parser.add_argument(
        "--unreliable",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of the nodes that reboot every few hours and lose their jobs (default: %(default)g)",
    )
    parser.add_argument(
        "--incidents",
        action="store_true",
        help="a node falls silent in the last hours of the period, and a user's jobs change in its last third",
    )
    parser.add_argument("--end", type=int, metavar="EPOCH", help="when the period ends (default: the last full minute)")
    parser.add_argument(
        "--accounting-out",
        required=True,
        type=Path,
        metavar="DIR",
        help="write accounting files here, in one directory per cluster",
    )
    parser.add_argument(
        "--truth-out",
        type=Path,
        metavar="FILE",
        help="write what each job really used to this file (default: DIR/truth.csv)",
    )
    parser.add_argument(
        "--connections", type=int, default=2, metavar="COUNT", help="connections to the server (default: %(default)s)"
    )
    parser.add_argument(
        "--batch", type=int, default=100, metavar="COUNT", help="readings per batch (default: %(default)s)"
    )
    parser.add_argument(
        "--progress-out", type=Path, metavar="FILE", help="write the progress to this file, as a line of JSON"
    )
    parser.add_argument("--cgroups", action="store_true", help="the agents read each job's cgroup, too")


def run(args: argparse.Namespace) -> int:
    """Plays the site; returns 0 if everything that should have been delivered was, 130 when interrupted."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _interrupt) if in_main_thread else None
    try:
        return _emulate(args)
    except (EmulatorError, TargetError) as error:
        print(f"jobsight-agent replay: {error}", file=sys.stderr)
        return 2
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)


def _emulate(args: argparse.Namespace) -> int:
    begun, cpu_begun = time.monotonic(), time.process_time()
    end = int(time.time()) // 60 * 60 if args.end is None else args.end
    if args.live < 0:
        raise EmulatorError(f"--live {args.live}: give seconds")
    if not 0 <= args.unreliable <= 1:
        raise EmulatorError(f"--unreliable {args.unreliable:g}: give a share of the nodes, from 0 to 1")
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
    progress = Progress(plan.start, plan.end, plan.start)

    def report(now: Progress) -> None:
        nonlocal progress
        progress = now
        reporter.report(now)

    def at_present(now: Progress) -> None:
        reporter.present = summarise(emulation, now, delivery.counts, None)
        reporter.write(now, done=False, delivered=None)

    live = Live(end, at_present) if args.live else None
    with ExitStack() as stack:
        truth = args.truth_out or args.accounting_out / "truth.csv"
        output = Output(stack, emulation, args.accounting_out, truth)
        try:
            with delivery:
                progress = play(emulation, delivery, output, report, live)
        except KeyboardInterrupt:
            failure = "interrupted"
        except (EmulatorError, TargetError) as error:
            failure = str(error)
    summary = summarise(emulation, progress, delivery.counts, failure)
    summary["seconds"] = round(time.monotonic() - begun, 3)
    summary["cpu_seconds"] = round(time.process_time() - cpu_begun, 3)
    reporter.write(progress, done=True, delivered=summary["delivered"])
    print(json.dumps(summary, indent=2))
    if failure is not None:
        print(f"jobsight-agent replay: {failure}", file=sys.stderr)
    if failure == "interrupted":
        return _INTERRUPTED
    return 0 if summary["delivered"] else 1


def summarise(emulation: Emulation, progress: Progress, counts: DeliveryCounts, failure: str | None) -> dict[str, Any]:
    """The figures of an emulation. ``delivered``: every reading was acknowledged, none rejected, none stored twice."""
    delivered = (
        failure is None
        and counts.readings_acknowledged == progress.readings_made
        and not counts.refused
        and not counts.stored_twice
    )
    plan = emulation.plan
    return {
        "delivered": delivered,
        "failure": failure,
        "seed": plan.seed,
        "clusters": {cluster.name: len(cluster.nodes) for cluster in emulation.clusters},
        "silent": {
            node.name: node.silent_from
            for cluster in emulation.clusters
            for node in cluster.nodes
            if node.silent_from < plan.end
        },
        **asdict(progress),
        **{one.name: getattr(counts, one.name) for one in fields(counts)},
        **emulation.facts,
    }


class _Reporter:
    """Writes the progress to a file, as a line of JSON, a few times a second at most.

    ``present`` is the summary at the time when the emulation reached the present and continued in real time.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.present: dict[str, Any] | None = None
        self._last = 0.0

    def report(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last >= 0.2:
            self._last = now
            self.write(progress, done=False, delivered=None)

    def write(self, progress: Progress, done: bool, delivered: bool | None) -> None:
        if self._path is None:
            return
        line = {
            "fraction": round(progress.fraction, 4),
            "emulated_time": progress.reached,
            "readings": progress.readings_made,
            "done": done,
            "delivered": delivered,
            "present": self.present,
        }
        fresh = self._path.with_name(self._path.name + ".new")
        fresh.write_text(json.dumps(line) + "\n", encoding="utf-8")
        fresh.replace(self._path)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
