"""What Slurm accounts of GPUs: as text and as JSON the same, of GPU jobs only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobsight_server.accounting.used import used_of

from .conftest import NOON, Release
from .test_text import COLUMNS, row, run_of, text

GIB = 2**30
Read = Callable[[bytes], list[Any]]
GPU_COLUMNS = [*COLUMNS, "ReqTRES", "NTasks", "TRESUsageInMax", "TRESUsageInMin"]

# (step, begin, end, tasks, sum at the last look, the largest task's peak, the smallest task's)
STEPS = [
    ("batch", 0, 100, 1, (0, 0), (2, 90), (2, 90)),  # its process had ended when Slurm looked last
    ("0", 0, 50, 4, (20, 300), (6, 100), (5, 60)),
    ("1", 50, 100, 1, (40, 10), (40, 10), (40, 10)),
]


def as_text(events: Read, gpus: str, steps: list[Any] = STEPS) -> Any:
    """The run in sacct's text; ``gpus`` are its resources."""

    def use(amounts: tuple[int, int]) -> str:
        return f"cpu=00:00:01,energy=0,gres/gpumem={amounts[0] * 1024}M,gres/gpuutil={amounts[1]},mem=10240K"

    rows = [
        row(
            f"7.{step}",
            Start=str(NOON + begin),
            End=str(NOON + end),
            NTasks=str(tasks),
            TRESUsageInTot=use(last),
            TRESUsageInMax=use(largest),
            TRESUsageInMin=use(least),
        )
        for step, begin, end, tasks, last, largest, least in steps
    ]
    return run_of(events, row("7", AllocTRES=f"billing=4,cpu=4,{gpus}mem=1200M,node=2"), *rows, columns=GPU_COLUMNS)


def as_json(events: Read, release: Release, gpus: list[tuple[str, int]], steps: list[Any] = STEPS) -> Any:
    """The same in its JSON."""

    def use(amounts: tuple[int, int]) -> list[dict[str, Any]]:
        return [
            {"type": "gres", "name": "gpumem", "id": 1002, "count": amounts[0] * GIB, "node": "n01", "task": 0},
            {"type": "gres", "name": "gpuutil", "id": 1003, "count": amounts[1], "node": "n01", "task": 0},
        ]

    found = []
    for step, begin, end, tasks, last, largest, least in steps:
        written = release.step(step, NOON + begin, NOON + end, 10 * 2**20, tasks=tasks)
        amounts = written["tres"]["requested"]
        amounts["total"] += use(last)
        amounts["max"] += use(largest)
        amounts["min"] += use(least)
        found.append(written)
    tres = [{"type": "cpu", "name": "", "count": 4}, {"type": "node", "name": "", "count": 2}]
    tres += [{"type": "gres", "name": name, "count": count} for name, count in gpus]
    (event,) = events(release.document(release.job(steps=found, allocated=tres)))
    return event.run


def test_the_peaks_of_tasks_and_of_steps_at_the_same_time_are_added_up(events: Read, release: Release) -> None:
    # The batch step, beside the four tasks of the first step and then beside the second.
    expected = {"gpu_memory": 42.0 * GIB, "gpu_utilisation": 3.9}
    for run in (
        as_text(events, "gres/gpu:a100=4,gres/gpu=4,"),
        as_json(events, release, [("gpu", 4), ("gpu:a100", 4)]),
    ):
        assert used_of(run.used) == pytest.approx(expected)
        assert (run.gpus, run.used_memory_bytes) == (4, 20 * 2**20)


def test_gpus_accounted_by_model_only(events: Read, newest: Release) -> None:
    assert as_text(events, "gres/gpu:a100=1,gres/gpu:v100=2,").gpus == 3
    assert as_json(events, newest, [("gpu:a100", 1), ("gpu:v100", 2)]).gpus == 3


def test_a_job_without_gpus_has_no_use_of_them(events: Read, newest: Release) -> None:
    none = [("batch", 0, 100, 1, (0, 0), (0, 0), (0, 0))]
    for run in (as_text(events, "", none), as_json(events, newest, [], none)):
        assert (run.gpus, run.used) == (None, None)
    for run in (as_text(events, "gres/gpu=2,", none), as_json(events, newest, [("gpu", 2)], none)):
        assert used_of(run.used) == {"gpu_memory": 0.0, "gpu_utilisation": 0.0}, "it held two GPUs and used none"


def test_gpus_whose_use_is_not_accounted(events: Read, newest: Release) -> None:
    tres = [{"type": "cpu", "name": "", "count": 4}, {"type": "gres", "name": "gpu", "count": 1}]
    (event,) = events(newest.document(newest.job(allocated=tres)))
    assert (event.run.gpus, event.run.used) == (1, None)


def test_a_waiting_job_asks_for_gpus(events: Read) -> None:
    waiting = {"Start": "Unknown", "End": "Unknown", "State": "PENDING", "NodeList": "None assigned"}
    asked = row("7", AllocTRES="", ReqTRES="billing=4,cpu=4,gres/gpu=2,mem=1200M,node=1", **waiting)
    assert run_of(events, asked, columns=GPU_COLUMNS).gpus == 2


def test_what_is_no_amount_is_refused(events: Read) -> None:
    data = text(row("7"), row("7.batch", TRESUsageInMax="gres/gpumem=lots"), columns=GPU_COLUMNS)
    assert events(data) == ["TRESUsageInMax is not a size"]
