"""The runs of one node: found by time one by one, and joined where they overlap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobsight_server.profiler.runs import NodeHistory, NodeRun

TIMES = st.integers(0, 30)


@given(st.lists(st.tuples(TIMES, st.integers(0, 10)), max_size=8), TIMES, TIMES)
def test_runs_that_overlap_are_joined(runs: list[tuple[int, int]], since: int, until: int) -> None:
    there = NodeHistory(NodeRun(i, start, start + length, 1) for i, (start, length) in enumerate(runs))
    joined: list[tuple[float, float]] = []
    for start, end in sorted((run.start, run.end) for run in there.between(-1, until)):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    assert there.occupied(since, until) == [(start, end) for start, end in joined if end > since]
