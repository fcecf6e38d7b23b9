"""The comparison with the peers on tasks made up here: rules by hand, and nothing is known before it happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from sizing import rules
from sizing.protocols import Rule, protocol_b
from sizing.table import Row, comparison
from sizing.tasks import Task, Workflow
from sizing.workflows import compare

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


def test_the_table_has_jobsight_over_the_best_peer_of_each_trace() -> None:
    rows = [Row("x", "B", "presets", 40.0, 0), Row("x", "B", "vpa", 20.0, 3), Row("x", "B", "jobsight", 25.0, 2)]
    assert comparison(rows).splitlines()[-1] == "| jobsight | 25/2 (1.25) |"


def test_a_new_site_has_each_peer_and_jobsight_by_its_forecast_and_as_decided() -> None:
    tasks = [task(2.0 + 0.1 * (k % 3), at=1e4 * k) for k in range(12)]
    rows = {row.rule: row for row in compare(Workflow("x", tasks, Counter()), "B", 0.95)}
    ours = [name for name in rows if name.startswith("jobsight")]
    assert ours == ["jobsight", "jobsight-by-size", "jobsight-decided", "jobsight-decided-by-size"]
    assert all(rows[name].gbh < rows["presets"].gbh for name in ours)
