"""One backtest at a glance: accuracy, calibration, and the cost of reservations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from jobsight_server.command_line.plot_style import BEST, INK, OTHERS, OURS, drawing


def draw_backtest(account: Mapping[str, Any], file: Path) -> None:
    """Plot the result of ``run_backtest`` in three panels; overwrite ``file``."""
    title = f"{account['trace']}: {account['metric']}, {account['jobs']:,} jobs of {account['users']:,} users"
    with drawing(file, title, columns=3) as (accuracy, calibration, bounds):
        _accuracy(accuracy, account)
        _calibration(calibration, account["quality"]["calibration"])
        _bounds(bounds, account)


def _accuracy(axes: Axes, account: Mapping[str, Any]) -> None:
    lines = {name: line for name, line in account["forecasters"].items() if name != "exponential-unclipped"}
    lines |= {"best of them\n(in hindsight)": account["hindsight"], "Jobsight": account["jobsight"]}
    for place, (name, line) in enumerate(lines.items()):
        colour = OURS if name == "Jobsight" else BEST if name.startswith("best") else OTHERS
        for offset, kind, strength in ((-0.2, "micro", 1.0), (0.2, "macro", 0.5)):
            share = line[kind] or 0.0
            axes.barh(place + offset, share, height=0.36, color=colour, alpha=strength)
            axes.text(share + 0.01, place + offset, f"{share:.2f}", va="center", fontsize=7, color=INK)
    axes.set_yticks(range(len(lines)), list(lines))
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0.0, 1.0)
    axes.set_title("Accuracy")
    axes.set_xlabel("mean accuracy: of jobs (solid), of users (pale)")


def _calibration(axes: Axes, steps: list[dict[str, float]]) -> None:
    axes.plot([0, 1], [0, 1], color=OTHERS, linewidth=1.0, linestyle="--")
    claimed, came = [step["probability"] for step in steps], [step["hit_rate"] for step in steps]
    most = max((step["jobs"] for step in steps), default=1)
    axes.plot(claimed, came, color=OURS, linewidth=1.2)
    axes.scatter(claimed, came, s=[12 + 120 * step["jobs"] / most for step in steps], color=OURS, zorder=3)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability claimed", ylabel="share within 20 %")
    axes.set_title("Calibration (larger dot: more jobs)")


def _bounds(axes: Axes, account: Mapping[str, Any]) -> None:
    ours = account["bounds_compared"]
    own = [(1.0 - ours["coverage"], ours["maq"])] if ours["jobs"] else []
    for name, line in account["baselines"].items():
        if not line["jobs"]:
            continue
        failed = 1.0 - line["coverage"]
        axes.scatter(100 * failed, line["maq"], color=OTHERS, s=36, zorder=3)
        axes.annotate(name, (100 * failed, line["maq"]), xytext=(5, 4), textcoords="offset points", fontsize=8)
        if matched := line.get("jobsight_at_its_failures"):
            own.append((matched["failures"] / matched["jobs"], matched["maq"]))
    own.sort()
    if own:
        axes.plot(*zip(*((100 * failed, maq) for failed, maq in own), strict=True), color=OURS, marker="o", zorder=4)
        failed, maq = own[-1]
        near = (100 * failed, maq)
        axes.annotate("Jobsight", near, xytext=(5, 4), textcoords="offset points", fontsize=8, color=OURS)
    axes.set(xlabel="jobs that run out, %", ylabel="used share of all reservations (MAQ)")
    axes.set_ylim(0.0, 1.0)
    drawn = [100.0 * (1.0 - line["coverage"]) for line in (ours, *account["baselines"].values()) if line["jobs"]]
    drawn += [100.0 * failed for failed, _ in own]
    axes.set_xlim(0.0, 1.4 * max(drawn, default=0.0) or 1.0)  # room for the names on the right
    axes.set_title("Cost of reservations (up and left is better)")
