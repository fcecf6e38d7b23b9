"""What a run ends with: the slowest tests, with the CPU seconds of their child processes, and the skipped ones."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slowest", type=int, default=0, metavar="N", help="list the N slowest tests, with CPU seconds")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Spent())


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


def cpu_seconds() -> float:
    """Return what this process and the children that it waited for have used of a processor."""
    return sum(os.times()[:4])


class Spent:
    """Add up each test's seconds by the clock and of a processor, fixtures included, in whichever process it ran."""

    def __init__(self) -> None:
        self._before = cpu_seconds()
        self._wall: Counter[str] = Counter()
        self._cpu: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach figures where the test runs; pytest-xdist transfers every attribute of a report."""
        report = yield
        report.cpu_seconds = (now := cpu_seconds()) - self._before
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect figures where the run is summarised."""
        self._wall[report.nodeid] += report.duration
        # pytest-xdist itself reports a test whose process crashed.
        self._cpu[report.nodeid] += getattr(report, "cpu_seconds", 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        shown = config.getoption("slowest")
        if not shown:
            return
        terminalreporter.section(f"{shown} slowest tests: seconds, CPU seconds with child processes")
        for test, seconds in self._wall.most_common(shown):
            terminalreporter.write_line(f"{seconds:>7.1f} {self._cpu[test]:>7.1f}  {test}")
        terminalreporter.write_line(f"{sum(self._wall.values()):>7.1f} {sum(self._cpu.values()):>7.1f}  all tests")
