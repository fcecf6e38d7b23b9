"""The GPUs of a job and of its steps, by their trackable resources.

Slurm accounts the use of GPUs (``gres/gpumem`` in bytes, ``gres/gpuutil`` in per cent of one GPU) where
``AccountingStorageTRES`` has ``gres/gpu`` and gres.conf says ``AutoDetect=nvml`` or ``rsmi``. It samples each process
every ``JobAcctGatherFrequency`` seconds. ``TRESUsageInMax`` is the highest sample of any task, ``Min`` that of the task
whose highest was lowest; ``Tot`` is the sum over tasks at the last sample, by which they may have released everything.
"""

from __future__ import annotations

from collections.abc import Mapping

GPU_TRES = {"gpu_memory": ("gres/gpumem", 1.0), "gpu_utilisation": ("gres/gpuutil", 0.01)}
"""Metric -> its resource, and the factor to the metric's unit."""


def gpus_of(tres: Mapping[str, float]) -> int | None:
    """Return the number of GPUs; None if the resources do not mention any.

    Some sites account them by model only.

    >>> gpus_of({"cpu": 4, "gres/gpu": 2, "gres/gpu:a100": 2}), gpus_of({"gres/gpu:a100": 1, "gres/gpu:v100": 1})
    (2, 2)
    """
    of_models = sum(count for name, count in tres.items() if name.startswith("gres/gpu:"))
    return int(tres.get("gres/gpu", of_models)) or None


def used_of_gpus(
    total: Mapping[str, float], largest: Mapping[str, float], least: Mapping[str, float], tasks: int | None
) -> dict[str, float]:
    """Return a step's use by metric: the sum of its tasks' known peaks, at least the sum at the last sample.

    >>> used_of_gpus({"gres/gpumem": 0}, {"gres/gpumem": 5e9, "gres/gpuutil": 90}, {"gres/gpumem": 3e9}, 2)
    {'gpu_memory': 8000000000.0, 'gpu_utilisation': 0.9}
    """
    found = {}
    for metric, (name, unit) in GPU_TRES.items():
        if name in total or name in largest:
            peaks = largest.get(name, 0.0) + ((tasks or 1) - 1) * least.get(name, 0.0)
            found[metric] = unit * max(total.get(name, 0.0), peaks)
    return found
