"""The figure that benchmarks/profile_guided.py draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobsight_papers.profile_guided.tuning import FORECASTER_OF
from jobsight_server.plot_style import drawing

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b8a300", "#8a8f98", "#111111")


def draw_sweeps(found: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Accuracy of each workload by window, bins and alpha."""
    with drawing(file, "Accuracy by window, bins and alpha on the traces", 3) as axes:
        for axis, (parameter, forecaster) in zip(axes, FORECASTER_OF.items(), strict=True):
            for row, colour in zip(found, _COLOURS, strict=False):
                values, reached = zip(*row["sweep"][parameter], strict=True)
                label = f"{row['trace']} {row['metric']}"
                axis.plot(values, reached, "o-", color=colour, markersize=2.5, linewidth=1, label=label)
            axis.set(title=f"{parameter} ({forecaster})", xlabel=parameter, ylabel="accuracy")
            if parameter != "alpha":
                axis.set_xscale("log")
        axes[1].legend(fontsize=6)
