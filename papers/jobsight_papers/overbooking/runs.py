"""Runs of the experiment: does it pay to sell the same hours twice (Birkenheuer, Brinkmann and Karl 2010)?

A run simulates one strategy and P_max on the last jobs of one trace. Runs are independent of one another; the seed
draws submissions, releases and failures, the same for all strategies.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from jobsight_papers.overbooking.jobs import (
    OverbookingSource,
    arrival_of,
    learned_history,
    nodes_of,
    offered_jobs,
    overbooking_jobs,
)
from jobsight_papers.overbooking.node_failures import downtimes
from jobsight_papers.overbooking.simulation import AcceptedJob, OverbookingSimulation
from jobsight_papers.overbooking.strategies import STRATEGIES, RiskForm
from jobsight_predictor.runtime.success import MachineFailure

REHEARSAL_SEED = 2**31
"""Seed of the rehearsal, different from that of every run."""

CALIBRATION_BINS = (0.0, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
"""Edges of predicted probability of failure in the calibration plot."""


@dataclass(frozen=True, slots=True)
class OverbookingCase:
    """One run. None takes the published value of the trace."""

    strategy: str = "time-slice"
    pmax: float = 0.1
    seed: int = 0
    nodes: int | None = None
    arrival_h: float | None = None
    arrival_factor: float = 1.0
    penalty_ratio: float = 1.0
    form: RiskForm = "exact"

    @property
    def without_pmax(self) -> OverbookingCase:
        """The common run of every P_max if P_max makes no difference, else itself."""
        return self if STRATEGIES[self.strategy].has_pmax else replace(self, pmax=0.0)


def run_overbooking(case: OverbookingCase, source: OverbookingSource) -> dict[str, Any]:
    """Return the figures of one run."""
    simulation = simulated(case, source)
    return run_figures(simulation.accepted, simulation.rejected) | {"candidates": simulation.candidates}


def simulated(case: OverbookingCase, source: OverbookingSource) -> OverbookingSimulation:
    """Return the simulation of one run, finished."""
    jobs = overbooking_jobs(source)
    nodes = nodes_of(jobs, case.nodes)
    arrival = arrival_of(jobs, case.arrival_h) * case.arrival_factor
    offers = offered_jobs(jobs, arrival, case.seed)
    strategy = STRATEGIES[case.strategy].at(case.pmax)
    can_rehearse = strategy.rehearses and source.skipped == 0
    machine = MachineFailure()
    horizon = max(job.deadline_h for job in offers)
    simulation = OverbookingSimulation(
        nodes,
        replace(strategy, form=case.form),
        learned_history(source, strategy.history),
        machine,
        downtimes(nodes, machine, horizon, case.seed),
        case.penalty_ratio,
        _rehearsed(replace(case, seed=REHEARSAL_SEED), source) if can_rehearse else None,
    )
    simulation.run(offers)
    return simulation


@lru_cache(maxsize=64)
def _rehearsed(case: OverbookingCase, source: OverbookingSource) -> dict[str, Any] | None:
    """Return the recalibration's state after a simulation of the jobs before, None if these are too few."""
    if overbooking_jobs(source).learned < 2 * source.last_jobs:
        return None
    return simulated(case, source.before).recalibration_state()


def run_figures(accepted: list[AcceptedJob], rejected: Counter[str]) -> dict[str, Any]:
    """Sum over the jobs of a run. Hours are charges and penalties, node-hours these times nodes."""
    good = [job for job in accepted if job.has_succeeded]
    bad = [job for job in accepted if not job.has_succeeded]
    pof, failed = [job.pof for job in accepted], [not job.has_succeeded for job in accepted]
    risky = [job for job in accepted if job.is_overbooked]
    bins = np.clip(np.searchsorted(CALIBRATION_BINS, pof, side="right") - 1, 0, len(CALIBRATION_BINS) - 2)
    return {
        "accepted": len(accepted),
        "successful_jobs": len(good),
        "failed_jobs": len(bad),
        "net_jobs": len(good) - len(bad),
        "profit_hours": sum(job.charge for job in good),
        "penalty_hours": sum(job.penalty for job in bad),
        "net_hours": sum(job.profit for job in accepted),
        "node_hours": sum(job.profit * job.nodes for job in accepted),
        "predicted_failure": float(np.mean(pof)) if pof else 0.0,
        "observed_failure": float(np.mean(failed)) if failed else 0.0,
        "killed_jobs": sum(job.was_killed for job in accepted),
        "node_failed_jobs": sum(job.node_failed for job in accepted),
        "overbooked_jobs": len(risky),
        "overbooked_predicted": float(sum(job.pof for job in risky)),
        "overbooked_failed": sum(not job.has_succeeded for job in risky),
        "rejected": dict(rejected),
        "calibration": {
            "jobs": np.bincount(bins, minlength=len(CALIBRATION_BINS) - 1).tolist(),
            "predicted": np.bincount(bins, pof, minlength=len(CALIBRATION_BINS) - 1).tolist(),
            "failed": np.bincount(bins, failed, minlength=len(CALIBRATION_BINS) - 1).tolist(),
        },
    }
