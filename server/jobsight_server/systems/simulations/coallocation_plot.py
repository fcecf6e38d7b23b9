"""The plot of a co-allocation: links over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jobsight_server.plot_style import BEST, INK, OURS, drawing

Floats = NDArray[np.float64]

BINS = 300
DAY_S = 86_400.0


def draw_links(lasted_s: Floats, asked: Floats, end_s: float, title: str, file: Path) -> None:
    """Demand over capacity of the busiest link, and on average over all links, over time."""
    with drawing(file, title, columns=1) as (axes,):
        if len(lasted_s):
            edges = end_s - np.concatenate([np.cumsum(lasted_s[::-1])[::-1], [0.0]])
            bins = np.linspace(edges[0], max(edges[-1], edges[0] + 1.0), BINS + 1)
            for values, colour, label in ((asked.max(axis=1), BEST, "busiest"), (asked.mean(axis=1), OURS, "mean")):
                area = np.concatenate([[0.0], np.cumsum(values * lasted_s)])
                means = np.diff(np.interp(bins, edges, area)) / np.diff(bins)
                axes.plot((bins[1:] + bins[:-1]) / 2.0 / DAY_S, means, color=colour, linewidth=1, label=label)
            axes.legend()
        axes.axhline(1.0, color=INK, linewidth=0.8)
        axes.set(xlabel="days", ylabel="asked of uplinks / carried at most", ylim=(0, None))
