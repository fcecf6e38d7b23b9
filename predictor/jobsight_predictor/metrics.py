"""The forecast metrics, one line each, for all programs and pages."""

from __future__ import annotations

from typing import Literal, NamedTuple

Format = Literal["bps", "bytes", "share", "seconds"]


class Metric(NamedTuple):
    """A metric: ``unit`` of learned values and ``job_unit`` of a whole job's; equal if ``is_of_job``, otherwise values
    are per processor. ``format`` is that of the pages. ``of_gpus``: only jobs with GPUs have values.
    """

    title: str
    unit: str
    job_unit: str
    format: Format
    is_of_job: bool = False
    of_gpus: bool = False

    @property
    def name(self) -> str:
        """The title within a sentence.

        >>> METRICS["runtime"].name, METRICS["cpu"].name, METRICS["gpu_memory"].name
        ('run time', 'CPU', 'GPU memory')
        """
        return " ".join(word if word.isupper() else word.lower() for word in self.title.split())


METRICS: dict[str, Metric] = {
    "bandwidth": Metric("Bandwidth", "bit/s per processor", "bit/s", "bps"),
    "memory": Metric("Memory", "bytes per processor", "bytes", "bytes"),
    "cpu": Metric("CPU", "CPU seconds per processor second", "CPU seconds per second", "share"),
    "runtime": Metric("Run time", "s", "s", "seconds", is_of_job=True),
    "gpu_memory": Metric("GPU memory", "bytes", "bytes", "bytes", is_of_job=True, of_gpus=True),
    "gpu_utilisation": Metric("GPU utilisation", "GPUs", "GPUs", "share", is_of_job=True, of_gpus=True),
}


def metrics_of(*, gpus: bool) -> tuple[str, ...]:
    """Return the metrics of a job with or without GPUs.

    >>> metrics_of(gpus=False)
    ('bandwidth', 'memory', 'cpu', 'runtime')
    """
    return tuple(name for name, metric in METRICS.items() if gpus or not metric.of_gpus)
