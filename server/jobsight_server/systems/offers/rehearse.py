"""What a cluster's own log says of promises before the first is made: they are rehearsed on its finished jobs."""

from __future__ import annotations

import logging
import threading

from sqlalchemy import Engine, select

from jobsight_predictor.runtime.success import Recalibration
from jobsight_scheduler.overbooking.accept import HISTORIES, STRATEGIES
from jobsight_scheduler.overbooking.node_failures import Downtimes
from jobsight_scheduler.overbooking.simulation import OverbookingSimulation
from jobsight_scheduler.overbooking.workload_job import DEADLINE_FACTOR, OfferedJob
from jobsight_server.systems.offers.calibration import Calibration, read_calibration, write_calibration
from jobsight_server.systems.offers.config import PlanConfig, cluster_nodes
from jobsight_server.systems.offers.run_times import as_offered
from jobsight_server.systems.offers.standing_plan import HOUR_S
from jobsight_server.systems.offers.stored import lock_plan
from jobsight_server.systems.offers.tables import plans

log = logging.getLogger(__name__)

FEWEST = 200
"""Finished jobs of a cluster, before a rehearsal says anything: half of them are history."""


def rehearse_plans(engine: Engine, config: PlanConfig, now: float, stop: threading.Event | None = None) -> int:
    """Rehearses for each cluster with a plan that has learned nothing yet; returns for how many."""
    if not config.overbooks:
        return 0
    done = 0
    with engine.connect().execution_options(reading=True) as connection:
        clusters = sorted({*config.nodes, *connection.scalars(select(plans.c.cluster))})
    for cluster in clusters:
        if stop is not None and stop.is_set():
            break
        with engine.connect().execution_options(reading=True) as connection:
            is_new = read_calibration(connection, cluster).is_new
            nodes, _ = cluster_nodes(connection, config, cluster)
            jobs = as_offered(connection, cluster, DEADLINE_FACTOR) if is_new and nodes else []
        if len(jobs) < FEWEST:
            continue
        learned = rehearsed(jobs, nodes, config, now)
        with engine.begin() as connection:
            lock_plan(connection, cluster)
            if read_calibration(connection, cluster).is_new:  # else a job has ended in the meantime
                write_calibration(connection, cluster, Calibration(learned))
                done += 1
        log.info("plan of %s: rehearsed on %d finished jobs, %d were overbooked", cluster, len(jobs), learned.jobs)
    return done


def rehearsed(jobs: list[OfferedJob], nodes: int, config: PlanConfig, now: float) -> Recalibration:
    """What the plan would have learned from the later half of ``jobs`` on ``nodes`` nodes, as of now."""
    strategy = STRATEGIES[config.strategy].at(config.max_failure)
    history = HISTORIES[strategy.history]()
    known = len(jobs) // 2
    for job in jobs[:known]:
        history.learn(job.question, job.run_h / job.requested_h)
    always_up = Downtimes([[] for _ in range(nodes)], [[] for _ in range(nodes)])
    simulation = OverbookingSimulation(nodes, strategy, history, config.machine, always_up, config.penalty_ratio)
    simulation.run(jobs[known:])
    return Recalibration.from_state(simulation.recalibration_state() or Recalibration().state(), now / HOUR_S)
