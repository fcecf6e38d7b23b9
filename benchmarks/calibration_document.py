"""The table and the figures of benchmarks/calibration.py in docs/use/accuracy.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sizing.table import markdown

from jobsight_server.command_line.plot_style import INK, drawing

Row = Mapping[str, Any]

PROBABILITIES = {
    "sure": "the forecast is within 20 % of what the job uses",
    "exceeds": "the job needs more than its bound",
}
BEGIN, END = "<!-- calibration -->", "<!-- end of calibration -->"
FEWEST = 100
"""Least jobs of a bin in a figure."""

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b8a300", "#8a8f98", "#111111")
_MARKS = {"memory": "o-", "runtime": "s--", "cpu": "^:", "bandwidth": "v-."}


def table(rows: Sequence[Row]) -> str:
    """Write a line for each workload: the corrected difference of each probability, and that by chance alone."""
    names = ("workload", "bursts", *(name for kind in PROBABILITIES for name in (kind, "by chance")))
    of_workload: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        figures = of_workload.setdefault((row["trace"], row["metric"]), [f"{row['bursts']:,}"])
        figures += [f"{row[figure]:.3f}" for figure in ("mean_difference", "chance")]
    return markdown(names, [(", ".join(key), *figures) for key, figures in of_workload.items()])


def kept(text: str) -> str:
    """Return the text between the markers of a document, with the markers; the markers alone if it has none."""
    if BEGIN not in text:
        return f"{BEGIN}\n{END}"
    return text[text.index(BEGIN) : text.index(END) + len(END)]


def put(document: Path, rows: Sequence[Row], jobs: int) -> None:
    """Replace the text between the markers of the document."""
    text = document.read_text(encoding="utf-8")
    pictures = [f"![Calibration: {words}](accuracy/calibration-{name}.svg)" for name, words in PROBABILITIES.items()]
    cut = any(row["jobs"] == jobs for row in rows)
    introduction = f"At most the first {jobs:,} jobs of each trace." if cut else "All jobs of each trace."
    block = "\n\n".join((f"{BEGIN}\n{introduction}", table(rows), *pictures, END))
    document.write_text(text.replace(kept(text), block), encoding="utf-8")


def draw(name: str, rows: Sequence[Row], file: Path) -> None:
    """Draw the reliability diagram of one probability, raw and corrected: a line for each workload, and the
    diagonal."""
    mine = [row for row in rows if row["probability"] == name]
    traces = list(dict.fromkeys(row["trace"] for row in mine))
    with drawing(file, f"Stated and observed: {PROBABILITIES[name]}", columns=2, height=4.6) as panels:
        for axes, title in zip(panels, ("plain", "corrected"), strict=True):
            largest = 0.0
            for row in mine:
                lines = [line for line in (row["plain"] if title == "plain" else row)["bins"] if line["jobs"] >= FEWEST]
                stated, came = [line["stated"] for line in lines], [line["came"] for line in lines]
                colour, label = _COLOURS[traces.index(row["trace"])], f"{row['trace']} {row['metric']}"
                axes.plot(stated, came, _MARKS[row["metric"]], color=colour, markersize=3, linewidth=1, label=label)
                largest = max([largest, *stated, *came])
            axes.plot((0.0, largest), (0.0, largest), color=INK, linewidth=1)
            axes.set(title=title, xlabel="probability stated", xlim=0.0, ylim=0.0)
        panels[0].set_ylabel("share of jobs observed")
        panels[1].legend(fontsize=6, loc="lower right")
