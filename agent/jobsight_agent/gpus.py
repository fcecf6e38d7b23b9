"""AMD's GPUs, as their driver shows them in ``/sys/class/drm``. Exporters read NVIDIA's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from jobsight_agent.procfiles import MOST_BYTES
from jobsight_agent.reading import MOST_GPUS, GpuReading

_BUSY, _USED, _TOTAL = "gpu_busy_percent", "mem_info_vram_used", "mem_info_vram_total"


def find_gpus(sys_root: Path) -> tuple[str, ...]:
    """Return the folders of cards that show use or memory, without their connectors (``card0-DP-1``)."""
    cards = (sys_root / "class" / "drm").glob("card*")
    found = sorted((int(card.name[4:]), card / "device") for card in cards if card.name[4:].isdecimal())
    return tuple(str(device) for _, device in found if any((device / file).exists() for file in (_BUSY, _USED)))


def read_gpus(devices: Sequence[str], number: Callable[[str], int], missed: list[str]) -> tuple[GpuReading, ...]:
    """Return the use of each card; ``number`` reads its files. An invalid value is ``missed``."""

    def read(path: str, most: int) -> int | None:
        try:
            value = number(path)
        except (OSError, ValueError):
            value = -1
        if 0 <= value <= most:
            return value
        missed.append("gpu")
        return None

    if len(devices) > MOST_GPUS:
        missed.append("gpu")
    found = []
    for device in devices[:MOST_GPUS]:
        total = read(f"{device}/{_TOTAL}", MOST_BYTES) or None
        used = read(f"{device}/{_USED}", total or MOST_BYTES)
        found.append(GpuReading(Path(device).parent.name, read(f"{device}/{_BUSY}", 100), used, total))
    return tuple(found)
