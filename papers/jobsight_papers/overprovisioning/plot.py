"""Plots of the over-provisioning experiment, numbered as published (Yom-Tov and Aridor 2006)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobsight_server.command_line.plot_style import BEST, INK, OTHERS, OURS, drawing

Row = Mapping[str, Any]
PAIR = {"none": OTHERS, "successive-approximation": OURS}


def draw(account: Mapping[str, Any], directory: Path) -> None:
    """Write the figures 1 and 3 to 8, if there are runs for them, into ``directory``."""
    _similarity(account["similarity"], directory)
    rows, ratios = account["rows"], account["ratios"]
    policy, classes = rows[0]["policy"], rows[0]["classes"]
    same = [row for row in rows if row["classes"] == classes]
    if len({row["load"] for row in same}) > 1:
        with drawing(directory / "figure-5.svg", "Utilisation by offered load", 1) as (axis,):
            for of, style in _styles(same).items():
                for name, colour in PAIR.items():
                    line = _line(same, of, name, "load", "utilisation")
                    axis.plot(*line, style, color=colour, markersize=3, label=f"{name}, {of}")
            axis.set(xlabel="offered load", ylabel="utilisation", ylim=(0, 1))
            axis.legend()
        with drawing(directory / "figure-6.svg", "Slowdown without estimation over slowdown with it", 1) as (axis,):
            at = [row for row in ratios if row["classes"] == classes]
            for of, style in _styles(same).items():
                for measure, colour in (("slowdown_ratio", OURS), ("bounded_slowdown_ratio", BEST)):
                    line = _line(at, of, "successive-approximation", "load", measure)
                    label = f"{measure.removesuffix('_ratio').replace('_', ' ')}, {of}"
                    axis.plot(*line, style, color=colour, markersize=3, label=label)
            axis.axhline(1.0, color=INK, linewidth=0.8)
            axis.set(xlabel="offered load", ylabel="ratio", yscale="log")
            axis.legend()
    if account["cycles"]:
        _cycles(account["cycles"], directory / "figure-7.svg")
    at_load = [row for row in ratios if row["load"] == rows[0]["load"] and row["second_mb"] is not None]
    if len({row["second_mb"] for row in at_load}) > 1:
        with drawing(directory / "figure-8.svg", "Utilisation by memory of the smaller nodes", 1) as (axis,):
            line = _line(at_load, policy, "successive-approximation", "second_mb", "utilisation_ratio")
            axis.plot(*line, "o-", color=OURS, markersize=3)
            axis.axhline(1.0, color=INK, linewidth=0.8)
            axis.set(xlabel="MB of the smaller nodes", ylabel="with estimation / without")


def _styles(rows: Sequence[Row]) -> dict[str, str]:
    """Return the line style of each policy."""
    return dict(zip(dict.fromkeys(row["policy"] for row in rows), ("o-", "o--", "o:"), strict=False))


def _line(rows: Sequence[Row], policy: str, estimator: str, x: str, y: str) -> tuple[list[float], list[float]]:
    points = sorted((row[x], row[y]) for row in rows if row["policy"] == policy and row["estimator"] == estimator)
    return [x for x, _ in points], [y for _, y in points]


def _similarity(found: Row, directory: Path) -> None:
    over, sizes, gain = found["request_over_use"], found["group_sizes"], found["gain"]
    with drawing(directory / "figure-1.svg", "Memory requested over memory used", 1) as (axis,):
        axis.bar(over["ratio"], over["percent"], width=0.8 * over["bin_width"], color=OURS)
        if over["r2"] is not None:
            ends = [over["ratio"][0], over["ratio"][-1]]
            line = [10.0 ** (over["intercept"] + over["slope"] * end) for end in ends]
            axis.plot(ends, line, color=BEST, label=f"R2 {over['r2']:.2f}")
            axis.legend()
        axis.set(xlabel="requested / used", ylabel="% of jobs", yscale="log")
    with drawing(directory / "figure-3.svg", "Jobs by size of their group", 1) as (axis,):
        for name, colour in (("jobs_share", OURS), ("groups_share", OTHERS)):
            shares = [100.0 * share for share in sizes[name]]
            axis.plot(sizes["at_least"], shares, "o-", color=colour, markersize=3, label=name.removesuffix("_share"))
        axis.set(xlabel="jobs of the group, at least", ylabel="%", xscale="log")
        axis.legend()
    with drawing(directory / "figure-4.svg", "Possible gain of a group by similarity of its jobs", 1) as (axis,):
        axis.plot(gain["range"], gain["gain"], ".", color=OURS, markersize=3)
        axis.axvline(gain["similarity_range"], color=INK, linewidth=0.8)
        axis.set(xlabel="maximum use / minimum use", ylabel="requested / maximum use", xscale="log", yscale="log")


def _cycles(found: Sequence[Row], file: Path) -> None:
    shown = found[:30]
    with drawing(file, "One group: what its jobs get, in order", 1) as (axis,):
        axis.step(range(1, len(shown) + 1), [row["given_mb"] for row in shown], where="mid", color=OURS, label="given")
        used = [(i, row["used_mb"]) for i, row in enumerate(shown, 1) if row["used_mb"] is not None]
        axis.plot([i for i, _ in used], [value for _, value in used], "o", color=BEST, markersize=3, label="used")
        axis.set(xlabel="job of the group", ylabel="MB", ylim=(0, None))
        axis.legend()
