"""Settings of the whole suite, and what every run of it reports: how many tests were skipped, by reason."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something of the machine, not of the code: on busy cores Hypothesis' own limits fail.
# Fixtures that last for all examples of a test are real databases and servers, which is what we want.
settings.register_profile(
    "jobsight",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("jobsight")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first: none of them is what the last of several processes is waited for."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line a reason, the most frequent first."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[why.removeprefix("Skipped: ")] += 1
    if reasons:
        terminalreporter.section("skipped tests by reason")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:>5}  {reason}")
