"""Plots of the profile-guided experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from jobsight_server.command_line.plot_style import ACTUAL, INK, OURS, SERIES, drawing

Row = Mapping[str, Any]
UNCLIPPED = "exponential-unclipped"
_FORECASTER = {"window": "sliding-window", "bins": "weighted", "alpha": "exponential"}


def draw(account: Row, directory: Path) -> None:
    """Write ``users.svg``, ``campaign.svg`` and ``sensitivity.svg`` into ``directory``."""
    title = "Memory of users X, Y and Z, and the forecast before each job"
    with drawing(directory / "users.svg", title, 3, 2) as axes:
        names = list(account["users"])
        for place, axis in enumerate(axes):
            name = names[place // 3]
            user = list(account["users"][name])[place % 3]
            _user(axis, account["users"][name][user])
            axis.set_title(f"{user}, alpha {account['parameters'][name]['alpha']:g}")
        axes[0].legend(fontsize=6)
    with drawing(directory / "campaign.svg", "600 jobs, the last 50 tested: accuracy by forecaster", 2) as axes:
        for axis, metric in zip(axes, account["published"], strict=True):
            _campaign(axis, metric, account)
    with drawing(directory / "sensitivity.svg", "Accuracy by window, bins and alpha", 3) as axes:
        for axis, parameter in zip(axes, _FORECASTER, strict=True):
            _sensitivity(axis, parameter, account["sensitivity"])


def _user(axis: Axes, row: Row) -> None:
    jobs = range(1, row["jobs"] + 1)
    axis.plot(jobs, row["values"], "o", color=ACTUAL, markersize=3, label="used")
    for name, colour in SERIES.items():
        axis.plot(jobs[1:], row["forecasters"][name]["forecasts"][1:], color=colour, linewidth=1, label=name)
    raw = row["forecasters"][UNCLIPPED]["forecasts"][1:]
    axis.plot(jobs[1:], raw, ":", color=SERIES["exponential"], linewidth=1.5, label="exponential, unclipped")
    axis.set(xlabel="job", ylabel="MB per processor", ylim=(0, None))


def _campaign(axis: Axes, metric: str, account: Row) -> None:
    found = account["campaign"]["published"][metric]["forecasters"]
    published = account["published"][metric]
    for shift, figure, colour, label in (
        (-0.18, "accuracy", OURS, "all users"),
        (0.18, "accuracy_above", "#e69f00", "users of PQM above .8"),
    ):
        rows = [found[name][figure] for name in found]
        means = [row["mean"] or 0.0 for row in rows]
        errors = [
            [mean - (row["low"] or mean) for mean, row in zip(means, rows, strict=True)],
            [(row["high"] or mean) - mean for mean, row in zip(means, rows, strict=True)],
        ]
        places = [place + shift for place in range(len(found))]
        axis.bar(places, means, 0.34, yerr=errors, color=colour, ecolor=INK, label=label)
        axis.axhline(published[figure], color=colour, linestyle="--", linewidth=1, label=f"published, {label}")
    axis.set_xticks(range(len(found)), list(found), rotation=30, ha="right", fontsize=7)
    axis.set(title=metric, ylim=(0, 1))
    axis.legend(loc="lower left", fontsize=6, frameon=True)


def _sensitivity(axis: Axes, parameter: str, found: Row) -> None:
    for (metric, rows), style in zip(found.items(), ("o-", "s--"), strict=False):
        values = [row["value"] for row in rows[parameter]]
        means = [row["mean"] for row in rows[parameter]]
        axis.plot(values, means, style, color=SERIES[_FORECASTER[parameter]], markersize=3, label=metric)
    axis.set(title=f"{parameter} ({_FORECASTER[parameter]})", xlabel=parameter, ylabel="accuracy")
    if parameter != "alpha":
        axis.set_xscale("log")
    axis.legend()
