"""The comparison with the peers on tasks made up here: rules by hand, and nothing is known before it happened."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from sizing import rules, rules_by_size  # noqa: E402
from sizing.protocols import Rule, protocol_b  # noqa: E402
from sizing.tasks import Task  # noqa: E402

GB = 1e9


def task(
    need_gb: float, *, at: float = 0.0, hours: float = 1.0, request_gb: float = 10.0, part: str = "", size: float = 1.0
) -> Task:
    seconds = 3600.0 * hours
    return Task("p", at, at + seconds, seconds, request_gb * GB, need_gb * GB, need_gb * GB, size, part)


def taught(rule: rules.OfProcess, needs_gb: Sequence[float]) -> rules.OfProcess:
    for need in needs_gb:
        rule.learn(task(need), need * GB)
    return rule


NEXT = task(0.0)


@pytest.mark.parametrize(
    ("rule", "needs", "asked", "after"),
    [
        # Tovar: a T + max T(above), T being 1 h for each: 4 + 4 of 1 GB against 16 of 4; 6 + 4 of 3 GB against 8 of 4.
        (rules.WittPercentile(), range(1, 22), 20.0, 40.0),
        (rules.Tovar(), (1.0, 1.0, 1.0, 4.0), 1.0, 4.0),
        (rules.Tovar(), (3.0, 4.0), 4.0, 128.0),
        (rules.LargestSeen(), (1.0, 7.0, 4.0), 7.0, 14.0),
        (rules.LeastPastWaste(), (1.0, 1.0, 1.0, 4.0), 1.0, 4.6),
        (rules.LeastExpectedWaste(), (1.0, 1.0, 1.0, 4.0), 1.1, 4.4),
        (rules.AutopilotP98(), range(1, 102), 99.0, 198.0),
        (rules.AutopilotMax(), (9.0, *([2.0] * 49), 3.0), 3.0, 6.0),
    ],
)
def test_a_rule_asks_what_its_paper_says(
    rule: rules.OfProcess, needs: Sequence[float], asked: float, after: float
) -> None:
    assert rule.ask(NEXT) == 10 * GB  # the request, while nothing is known
    taught(rule, needs)
    assert rule.ask(NEXT) == pytest.approx(asked * GB)
    assert rule.again(NEXT, rule.ask(NEXT)) == pytest.approx(after * GB)


def test_vpa_forgets_in_days_and_adds_a_fifth_after_a_failure() -> None:
    rule = rules.Vpa()
    day = 86_400.0
    for i in range(19):
        rule.learn(task(1.0, at=i), GB)
    rule.learn(task(8.0, at=19.0), 8 * GB)
    end = next(end for end in 1e7 * (1.05 ** np.arange(1, 100) - 1) / 0.05 if end > GB)
    assert rule.ask(NEXT) == pytest.approx(1.15 * end)  # 19 of 20, and buckets of 5 %
    rule.learn(task(8.0, at=4 * day), 8 * GB)
    assert rule.ask(NEXT) > 1.15 * 8 * GB  # the others weigh a sixteenth by now
    assert rule.again(NEXT, GB) == pytest.approx(1.2 * GB)
    assert rule.again(NEXT, 1e8) == pytest.approx(2e8)


def test_needs_below_their_line_by_rounding_only_are_fitted() -> None:
    """As on chipseq: three tasks on a line, which ends up above each of them."""
    rule = rules_by_size.WittWastage()
    for size in (314451728.0, 557200828.0, 535520666.0):
        rule.learn(task(1.0, size=size), 454201838.8131471 + 2.059575376969198 * size)
    assert not (rule.needs >= np.maximum(rule.line(rule.sizes), np.quantile(rule.needs, 0.5))).any()
    assert rule.first(task(1.0, size=4e8)) >= float(rule.needs.min())


class Recorder(Rule):
    """Asks for 2 GB, then 3, 4 .. and notes what it was asked and what it learned, in order."""

    def __init__(self) -> None:
        self.log: list[tuple[str, float]] = []

    def ask(self, task: Task) -> float:
        self.log.append(("ask", task.submitted))
        return 2 * GB

    def again(self, task: Task, asked: float) -> float:
        return asked + GB

    def fail(self, task: Task, asked: float) -> None:
        self.log.append(("fail", asked / GB))

    def learn(self, task: Task, need: float) -> None:
        self.log.append(("learn", need / GB))


def test_protocol_b_knows_nothing_that_has_not_happened() -> None:
    hour = 3600.0
    tasks = [task(3.0, at=0.0), task(1.0, at=1800.0), task(1.5, at=hour), task(1.6, at=3 * hour)]
    rule = Recorder()
    protocol_b(tasks, rule)
    # The first fails at 1 h, before the third is asked for at that instant, and its need is known when it ends at 2 h.
    assert rule.log == [
        *(("ask", 0.0), ("ask", 1800.0), ("fail", 2.0), ("ask", hour)),
        *(("learn", 1.0), ("learn", 3.0), ("learn", 1.5), ("ask", 3 * hour), ("learn", 1.6)),
    ]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "peers.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def grown(rule: rules.OfProcess, pairs: Sequence[tuple[float, float]]) -> rules.OfProcess:
    """Taught tasks of (size, need in GB), an hour each."""
    for size, need in pairs:
        rule.learn(task(need, size=size), need * GB)
    return rule


def test_witt_lr_is_a_line_and_the_spread_of_its_errors() -> None:
    rule = grown(rules_by_size.WittLr(), [(1.0, 1.0), (2.0, 2.0)])
    assert rule.ask(task(0.0, size=4.0)) == pytest.approx(4 * GB)
    for need in (4.0, 2.0):  # at 4 the line says 4, then again 4: errors 0 and -1
        one = task(need, size=4.0)
        rule.said[id(one)] = 4 * GB  # type: ignore[attr-defined]
        rule.learn(one, need * GB)
    line = float(np.polyval(np.polyfit([1, 2, 4, 4], [1, 2, 4, 2], 1), 3.0))
    assert rule.ask(task(0.0, size=3.0)) == pytest.approx(line * 1.5 * GB)
    below = task(0.0, size=-50.0)
    assert rule.again(below, rule.ask(below)) == 4 * GB


def test_witt_wastage_finds_the_line_that_wastes_nothing() -> None:
    pairs = [(float(size), 1.0 + size / 2) for size in range(1, 9)]
    rule = grown(rules_by_size.WittWastage(), pairs)
    for size, need in pairs:
        assert rule.ask(task(0.0, size=size)) == pytest.approx(need * GB)


def test_ponder_looks_at_size_only_where_it_matters() -> None:
    offset = 128 * 2**20
    few = grown(rules_by_size.Ponder(), [(5.0, 1.0), (3.0, 2.0)])
    assert few.ask(task(0.0, size=4.0)) == 2 * GB + offset  # a larger one is known
    assert few.ask(task(0.0, size=6.0)) == 10 * GB
    level = grown(rules_by_size.Ponder(), [(1.0, 2.0), (2.0, 1.0), (3.0, 2.0), (4.0, 1.0), (5.0, 1.9)])
    assert level.ask(task(0.0, size=3.0)) == 2 * GB + offset
    rising = grown(rules_by_size.Ponder(), [(float(size), float(size)) for size in range(1, 7)])
    assert rising.ask(task(0.0, size=3.5)) == pytest.approx(3.5 * GB + offset)
    assert rising.again(NEXT, 3.5 * GB) == 10 * GB
    residuals = np.array([1.0, -1.0, 0.0, 0.0, 0.0, 0.0])
    assert rising.spread(3.5) == pytest.approx(0.0, abs=1.0)  # type: ignore[attr-defined]
    bent = grown(rules_by_size.Ponder(), [(size, size + away) for size, away in enumerate(residuals, 10)])
    sizes, needs = np.arange(10.0, 16.0), np.arange(10.0, 16.0) + residuals
    off = needs - np.polyval(np.polyfit(sizes, needs, 1), sizes)
    weights = 1.0 - np.abs(sizes - 12.0) / 3.0 + 0.004
    mean = np.average(off, weights=weights)
    variance = np.sum(weights * (off - mean) ** 2) / (weights.sum() - (weights**2).sum() / weights.sum())
    assert bent.spread(12.0) == pytest.approx(np.sqrt(variance) * GB)  # type: ignore[attr-defined]


def test_sizey_weighs_its_models_and_retries_with_the_largest() -> None:
    rule = grown(rules_by_size.Sizey(), [(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)])
    assert rule.ask(task(0.0, size=2.0)) == pytest.approx(2.0 * GB)  # never wrong: no offset
    rule.learn(task(8.0, size=9.0), 8 * GB)
    assert rule.again(NEXT, 2 * GB) == 8 * GB
    assert rule.again(NEXT, 7.9 * GB) == pytest.approx(15.8 * GB)  # too near to the largest


def test_neighbours_take_the_nearest_by_size() -> None:
    rule = grown(rules_by_size.Neighbours(), [*[(1.0, 1.0)] * 50, *[(9.0, 5.0)] * 50])
    assert rule.ask(task(0.0, size=2.0)) == pytest.approx(1.1 * GB)
    assert rule.ask(task(0.0, size=8.0)) == pytest.approx(5.5 * GB)
