"""How much work a workload brings to a machine, and the same workload with more or less of it."""

from __future__ import annotations

from dataclasses import replace

from .canonical import TIME_AT_MOST_S, Workload

LOAD_AT_MOST = 100.0


def offered_load(workload: Workload, capacity: int) -> float:
    """Processor seconds that arrive, of those that the machine has from the first submission to the last.

    Raises:
        ValueError: all jobs come at once, or there are none: the load has no bounds.
    """
    span = float(workload.submit_s[-1]) if len(workload) else 0.0
    if span <= 0.0:
        raise ValueError(f"{len(workload)} jobs, all submitted at once, have no load that can be measured or scaled")
    return float(workload.processors @ workload.run_s) / (capacity * span)


def scaled_to(workload: Workload, capacity: int, load: float) -> Workload:
    """The jobs of ``workload`` with all times between submissions stretched or shrunk to an offered load of ``load``.

    Raises:
        ValueError: ``load`` is not above 0 or beyond 100, the workload has none that can be scaled, or it would last
            for longer than times can be told apart.
    """
    if not 0.0 < load <= LOAD_AT_MOST:
        raise ValueError(
            f"a load of {load} cannot be offered; give a share of the machine such as 0.8, at most {LOAD_AT_MOST:g}"
        )
    stretched = offered_load(workload, capacity) / load
    if float(workload.submit_s[-1]) * stretched > TIME_AT_MOST_S:
        raise ValueError(f"a load of {load} stretches the workload beyond {TIME_AT_MOST_S:.0e} s; give a higher one")
    return replace(workload, submit_s=workload.submit_s * stretched)
