"""The style of all plots, and writing them: no window, no date, the same bytes for the same figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from jobsight_server.storage.named_files import whole_file

OURS = "#0072b2"
BEST = "#e69f00"
OTHERS = "#8a8f98"
ACTUAL = "#111111"
INK = "#333333"

SERIES = {
    "history": "#56b4e9",
    "sliding-window": "#009e73",
    "weighted": "#cc79a7",
    "locality": "#d55e00",
    "exponential": "#b8a300",
}
"""Colours of the published five. The colour-blind can distinguish all of them (Okabe and Ito)."""

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e6ea",
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "svg.hashsalt": "jobsight",
    "svg.fonttype": "none",
}


@contextmanager
def drawing(file: Path, title: str, columns: int, rows: int = 1, height: float = 3.6) -> Iterator[list[Axes]]:
    """Yield axes to draw on, row by row; write the result to ``file`` afterwards. ``height`` in inches per row."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2 * max(columns, 2), height * rows), layout="constrained")
        FigureCanvasSVG(figure)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=11, parse_math=False)
        yield list(figure.subplots(rows, columns, squeeze=False).flat)
        with whole_file(file) as place:
            figure.savefig(place, format="svg", metadata={"Date": None, "Creator": None})
