"""Second profiles, after late samples.

A learned value stays as it is. A metric without one gets its value when the samples arrive, and is learned then, with
its own ``learn_seq``: retraining from the stored rows still gives the same model, and a kill at any time cannot teach a
value twice. The writer records late batches as it stores them (storage.late_batches). Each is examined twice: soon, for
the runs whose samples are now complete, and after the grace period, for the other runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, bindparam, update

from jobsight_server.forecasts.events import Observations, last_learn_seq, observed
from jobsight_server.forecasts.outcomes import claim
from jobsight_server.forecasts.request import ForecastConfig, read_jobs
from jobsight_server.forecasts.rounds import catch_up, lock_learning
from jobsight_server.ground.event_counts import EventCounts, add_event_counts
from jobsight_server.learning.finished import AS_USUAL, KEEP_PEAKS, LearningOptions, accepted, observations, row
from jobsight_server.profiler.exactness import Measurements
from jobsight_server.profiler.ready import SampledNodes, complete, profiles_of, read_incomplete
from jobsight_server.profiler.runs import EndedRun
from jobsight_server.savings.sums.add import add_runs, take_back_runs
from jobsight_server.storage.engine import of_runs
from jobsight_server.storage.readings.late_batches import Spans, forget, new_late, see, settled_late
from jobsight_server.storage.schema import profiles

# Time before and after a run's life with readings that may matter: its idle level, a mark.
_BEFORE_S = 3600.0
_AFTER_S = 300.0
_FILL = update(profiles).where(
    profiles.c.run_id == bindparam("of_run"),
    profiles.c.metric == bindparam("of_metric"),
    profiles.c.value.is_(None),
)


def profile_late(
    engine: Engine, grace_s: float, clock: Callable[[], float], options: LearningOptions = AS_USUAL
) -> int:
    """Fill in the values that late samples allow and learn them; return how many were found.

    Work that the options' ``stop`` interrupts is repeated.
    """
    with engine.connect().execution_options(reading=True) as connection:
        new = new_late(connection)
    found = _fill(engine, new.spans, True, options)
    if options.is_stopped:
        return found
    if new.spans:
        with engine.begin() as connection:
            see(connection, new)
    now = clock()
    with engine.connect().execution_options(reading=True) as connection:
        settled = settled_late(connection, now, grace_s)
    found += _fill(engine, settled.spans, False, options)
    if settled.spans and not options.is_stopped:
        with engine.begin() as connection:
            forget(connection, settled, now, grace_s)
    return found


def _fill(engine: Engine, spans: Spans, whole: bool, options: LearningOptions) -> int:
    """Profile the runs again whose life ``spans`` overlap; with ``whole``, only those whose samples are complete."""
    if not spans:
        return 0
    found = 0
    after = (min(first for first, _ in spans.values()) - _AFTER_S, 0)
    until = max(last for _, last in spans.values()) + _BEFORE_S
    while not options.is_stopped:
        with engine.connect().execution_options(reading=True) as connection:
            runs = read_incomplete(connection, after, until, options.limit)
            if not runs:
                break
            sampled_nodes = SampledNodes(connection)
            near = [run for run in runs if _concerned(run, sampled_nodes, spans)]
            if whole:
                near = [run for run in near if complete(connection, run, sampled_nodes)]
            profiled = profiles_of(connection, near, sampled_nodes, options.config, options.stop)
        if profiled:
            with engine.begin() as connection:
                found += _store_late(connection, profiled, options.config)
        after = (runs[-1].end, runs[-1].id)
    return found


def _concerned(run: EndedRun, sampled_nodes: SampledNodes, spans: Spans) -> bool:
    nodes = [sampled_nodes.find(run.cluster, node) for node in run.nodes]
    late = [spans[node.id] for node in nodes if node is not None and node.id in spans]
    return any(first <= run.end + _AFTER_S and last >= run.start - _BEFORE_S for first, last in late)


def _store_late(
    connection: Connection, profiled: Sequence[tuple[EndedRun, Measurements]], config: ForecastConfig
) -> int:
    """Store and learn the values of metrics that had none; return their number."""
    lock_learning(connection)
    catch_up(connection, config)
    counts: EventCounts = Counter()
    learn_seq = last_learn_seq(connection)
    # Not their whole day: that takes seconds at a large site.
    counted = [run.id for run, _ in profiled]
    take_back_runs(connection, counted)
    measured: dict[int, Observations] = {}
    for run, profile in profiled:
        filled = {}
        for metric, entry in accepted(profile, Counter()).items():
            key = {"of_run": run.id, "of_metric": metric}
            columns = row(entry)
            if entry.value is None:  # the reason may have changed
                connection.execute(_FILL.values(columns), key)
            elif connection.execute(_FILL.values({**columns, "learn_seq": learn_seq + 1}), key).rowcount:
                filled[metric] = entry
                counts["profiles_late", metric] += 1
        if filled:
            learn_seq += 1
            measured[run.id] = observations(filled, counts)
    known = read_jobs(connection, list(measured))
    claim(
        connection, known, {run_id: observed(known[run_id], found, is_late=True) for run_id, found in measured.items()}
    )
    catch_up(connection, config)
    of_runs(connection, KEEP_PEAKS, list(measured))
    add_runs(connection, counted)
    add_event_counts(connection, counts)
    return sum(len(found) for found in measured.values())
