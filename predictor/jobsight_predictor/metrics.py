"""What is forecast: one line a metric, which all programs and pages read."""

from __future__ import annotations

from typing import Literal, NamedTuple

Format = Literal["bps", "bytes", "share", "seconds"]


class Metric(NamedTuple):
    """``unit`` of the values learned, ``job_unit`` of those of a whole job: the same where ``is_of_job``, or else the
    values are per processor. ``format`` is how pages write them."""

    title: str
    unit: str
    job_unit: str
    format: Format
    is_of_job: bool = False

    @property
    def name(self) -> str:
        """The title within a sentence.

        >>> METRICS["runtime"].name, METRICS["cpu"].name
        ('run time', 'CPU')
        """
        return self.title if self.title.isupper() else self.title.lower()


METRICS: dict[str, Metric] = {
    "bandwidth": Metric("Bandwidth", "bit/s per processor", "bit/s", "bps"),
    "memory": Metric("Memory", "bytes per processor", "bytes", "bytes"),
    "cpu": Metric("CPU", "CPU seconds per processor second", "CPU seconds per second", "share"),
    "runtime": Metric("Run time", "s", "s", "seconds", is_of_job=True),
}
