"""The load of a workload on a machine, and the same workload at another load."""

from __future__ import annotations

from dataclasses import replace

from .canonical import TIME_AT_MOST_S, Workload

LOAD_AT_MOST = 100.0


def offered_load(workload: Workload, capacity: int) -> float:
    """Processor seconds submitted, as a share of those that the machine has from the first submission to the last.

    Raises:
        ValueError: all jobs are submitted at once, or there are none: the load is infinite or undefined.
    """
    span = float(workload.submit_s[-1]) if len(workload) else 0.0
    if span <= 0.0:
        raise ValueError(f"{len(workload)} jobs, all submitted at once, have no load that can be measured or scaled")
    return float(workload.processors @ workload.run_s) / (capacity * span)


def scaled_to(workload: Workload, capacity: int, load: float) -> Workload:
    """The jobs of ``workload`` with all times between submissions stretched or shrunk to an offered load of ``load``.

    Raises:
        ValueError: ``load`` is not above 0 or beyond 100, the workload has none that can be scaled, or it would last
            too long for precise times.
    """
    if not 0.0 < load <= LOAD_AT_MOST:
        raise ValueError(
            f"a load of {load} cannot be offered; give a share of the machine such as 0.8, at most {LOAD_AT_MOST:g}"
        )
    stretched = offered_load(workload, capacity) / load
    if float(workload.submit_s[-1]) * stretched > TIME_AT_MOST_S:
        raise ValueError(f"a load of {load} stretches the workload beyond {TIME_AT_MOST_S:.0e} s; give a higher one")
    return replace(workload, submit_s=workload.submit_s * stretched)
