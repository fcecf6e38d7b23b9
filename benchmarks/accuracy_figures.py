"""The figures of docs/use/accuracy.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from accuracy_users import WINDOW, Lifetime
from matplotlib.axes import Axes

from jobsight_predictor.arrays import Floats
from jobsight_predictor.forecasters import FIVE
from jobsight_server.command_line.plot_style import ACTUAL, INK, OURS, SERIES, drawing

_COLOURS = {**SERIES, "Jobsight": OURS}
_TRACES = ("#d55e00", "#009e73", "#cc79a7", "#56b4e9")


def draw_quality(users: Sequence[Lifetime], of_users: Mapping[str, Floats], file: Path) -> None:
    """Draw figure 2: PQM and recent PQM of the chosen users, and the PQM of all users of each trace."""
    with drawing(file, "Figure 2: how alike a user's jobs are", columns=2) as (few, all_users):
        places = np.arange(len(users))
        for offset, k, name in ((-0.2, 0, "PQM"), (0.2, 1, "recent PQM")):
            few.barh(
                places + offset, [user.qualities[k] for user in users], height=0.36, color=(INK, OURS)[k], label=name
            )
        few.set_yticks(places, [user.name for user in users])
        few.invert_yaxis()
        few.set(xlim=(0, 1), xlabel="share of jobs within 20 % of the first, of the last")
        few.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=2)
        for (name, shares), colour in zip(of_users.items(), _TRACES, strict=False):
            all_users.plot(
                np.sort(shares), np.linspace(0, 1, len(shares)), color=colour, label=f"{name}, {len(shares)} users"
            )
        all_users.set(xlim=(0, 1), ylim=(0, 1), xlabel="PQM of memory", ylabel="share of users below")
        all_users.legend(loc="lower right")


def draw_window(title: str, users: Sequence[Lifetime], file: Path) -> None:
    """Draw figures 3 to 5: use and forecast of each job."""
    with drawing(file, title, columns=1, rows=len(users), height=3.0) as panels:
        for axes, user in zip(panels, users, strict=True):
            _window(axes, user)
        panels[0].legend(loc="upper center", bbox_to_anchor=(0.5, 1.32), ncols=4)
        panels[-1].set_xlabel("job")


def _window(axes: Axes, user: Lifetime) -> None:
    jobs = np.arange(user.begin, min(user.begin + WINDOW, len(user.values)))
    for name, predicted in user.forecasts.items():
        ours = name == "Jobsight"
        axes.plot(
            jobs,
            predicted[jobs] / user.scale,
            color=_COLOURS[name],
            linewidth=2.2 if ours else 1.0,
            zorder=4 if ours else 2,
            label=name,
        )
    axes.scatter(jobs, user.values[jobs] / user.scale, color=ACTUAL, s=9, zorder=5, label="used")
    axes.set_title(user.name)
    axes.set_ylabel(f"{user.unit} per processor")
    axes.set_ylim(bottom=0.0)


def draw_accuracy(users: Sequence[Lifetime], file: Path) -> None:
    """Draw figure 6: mean accuracy of each forecaster for each of the users."""
    names = [*FIVE, "Jobsight"]
    with drawing(file, "Figure 6: accuracy of each forecaster, per user", columns=1, height=3.8) as (axes,):
        width = 0.8 / len(names)
        for k, name in enumerate(names):
            places = np.arange(len(users)) + (k - (len(names) - 1) / 2) * width
            axes.bar(places, [user.accuracy[name] for user in users], width, color=_COLOURS[name], label=name)
        axes.set_xticks(
            np.arange(len(users)), [user.name.replace(" of ", "\nof ").replace(", ", ",\n") for user in users]
        )
        axes.set(ylim=(0, 1), ylabel="mean accuracy")
        axes.grid(visible=False, axis="x")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=6)
