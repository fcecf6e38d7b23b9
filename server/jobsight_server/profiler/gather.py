"""What is known of the nodes of many runs, gathered in few queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection

from jobsight_server.profiler.profile import OnNode
from jobsight_server.profiler.readings import Boundaries, Mark, Readings, boundaries, read_marks, read_windows
from jobsight_server.profiler.ready import Sender, Senders
from jobsight_server.profiler.sharing import Presences, Run, neighbours

# Readings of runs that are gathered together are in memory together: at a reading a second some 50 MB.
_NODE_SECONDS_AT_ONCE = 1e6


def gather(
    connection: Connection, runs: Sequence[Run], senders: Senders, presences: Presences
) -> Iterator[tuple[Run, list[OnNode]]]:
    """Each of ``runs`` with what is known of its nodes; without any where it names none or took no time."""
    for some in _portions(runs):
        yield from _gathered(connection, some, senders, presences)


def _portions(runs: Iterable[Run]) -> Iterator[list[Run]]:
    portion: list[Run] = []
    seconds = 0.0
    for run in runs:
        own = len(run.nodes) * max(0.0, run.end - run.start)
        if portion and seconds + own > _NODE_SECONDS_AT_ONCE:
            yield portion
            portion, seconds = [], 0.0
        portion.append(run)
        seconds += own
    if portion:
        yield portion


def _gathered(
    connection: Connection, runs: Sequence[Run], senders: Senders, presences: Presences
) -> Iterator[tuple[Run, list[OnNode]]]:
    places: list[tuple[Run, str, Sender | None]] = [
        (run, node, senders.find(run.cluster, node)) for run in runs if run.end > run.start for node in run.nodes
    ]
    marks = read_marks(connection, [(sender.id, run.job_id) for run, _, sender in places if sender is not None])
    lives = [_life(run, [] if sender is None else marks.get((sender.id, run.job_id), [])) for run, _, sender in places]
    windows = read_windows(
        connection,
        [(place[2].id, at.start, at.end) for place, at in zip(places, lives, strict=True) if place[2] is not None],
    )
    found: dict[int, list[OnNode]] = {run.id: [] for run in runs}
    for (run, node, sender), at in zip(places, lives, strict=True):
        readings = None if sender is None else windows.around(sender.id, at.start, at.end)
        near = presences.get((run.cluster, node))
        found[run.id].append(OnNode(node, run.nodes[node], readings, at, neighbours(run, near, *_span(readings, at))))
    for run in runs:
        yield run, found[run.id]


def _life(run: Run, marks: Sequence[Mark]) -> Boundaries:
    return boundaries(marks, run.start, run.end, run.next_start) if marks else Boundaries(run.start, run.end)


def _span(readings: Readings | None, at: Boundaries) -> tuple[float, float]:
    """From the first to the last reading, in the scheduler's clock: what was on the node outside says nothing."""
    if readings is None or not len(readings.time):
        return at.start, at.start
    return float(readings.time[0]) - at.offset_s, float(readings.time[-1]) - at.offset_s
