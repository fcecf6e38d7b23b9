"""What is forecast, and in which unit."""

from __future__ import annotations

METRICS: dict[str, str] = {
    "bandwidth": "bit/s per processor",
    "memory": "bytes per processor",
    "cpu": "CPU seconds per processor second",
    "runtime": "s",
}
