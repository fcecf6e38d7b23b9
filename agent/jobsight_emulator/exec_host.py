"""The ways in which servers of several versions write the processors of a job."""

from __future__ import annotations

from collections.abc import Iterable

from jobsight_emulator.workload import EmulatedJob


def exec_host(places: Iterable[tuple[str, tuple[int, ...]]], form: str) -> str:
    """The ``exec_host`` of (node name, rising slots) in ``form``: slots, ranges, stars or mixed.

    >>> places = [("n1", (0, 1, 3)), ("n2", (0, 1))]
    >>> exec_host(places, "slots")
    'n1/3+n1/1+n1/0+n2/1+n2/0'
    >>> exec_host(places, "ranges")
    'n1/0-1+n1/3+n2/0-1'
    >>> exec_host(places, "stars")
    'n1/0*3+n2/0*2'
    >>> exec_host(places, "mixed")
    'n1/0-1+n1/3+n2/0*2'
    """
    parts = []
    for position, (name, slots) in enumerate(places):
        node_form = ("ranges", "stars", "slots")[position % 3] if form == "mixed" else form
        if node_form == "slots":
            parts += [f"{name}/{slot}" for slot in reversed(slots)]
        elif node_form == "ranges":
            parts += [f"{name}/{low}-{high}" if low < high else f"{name}/{low}" for low, high in _ranges(slots)]
        else:
            parts.append(f"{name}/{slots[0]}*{len(slots)}")
    return "+".join(parts)


def form_of(cluster_position: int, job: EmulatedJob) -> str:
    """Older servers list every slot; the others write ranges, and stars for jobs with whole nodes."""
    if cluster_position % 2 == 0:
        return "slots"
    if not job.user.whole_nodes:
        return "ranges"
    return ("stars", "ranges", "mixed")[job.number % 3]


def _ranges(slots: tuple[int, ...]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for slot in slots:
        if ranges and ranges[-1][1] == slot - 1:
            ranges[-1] = (ranges[-1][0], slot)
        else:
            ranges.append((slot, slot))
    return ranges
