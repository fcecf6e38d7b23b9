"""The event loop: submissions, wakes and ends, in one order for every kind of machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.question import Question
from jobsight_scheduler.policies.base import NEVER, JobRequests, Policy
from jobsight_scheduler.policies.placement import Placement
from jobsight_scheduler.workload.canonical import Workload

MakePolicy = Callable[[JobRequests], Policy]


class Simulation:
    """A run of ``workload`` on ``capacity`` processors under the policy from ``make_policy``.

    Real run times stay in here: the policy sees only the requests, and each end when it happens. ``questions`` are
    those to a predictor, one for each job; ``machine`` places jobs: counted processors if None. At one instant wakes
    precede submissions, submissions precede ends; ends follow the order of the starts.

    Another kind of machine overrides three functions: ``_arrive(now, job)`` and ``_leave(now, job)`` return the jobs
    that start, ``_lasts(job)`` the run time of a job that starts now; ``_leave`` may find that the job goes on.

    Raises:
        RuntimeError: (from ``advance``) the policy leaves jobs waiting when no event remains.
    """

    def __init__(
        self,
        workload: Workload,
        capacity: int,
        make_policy: MakePolicy,
        questions: Sequence[Question] = (),
        machine: Placement[Any] | None = None,
    ) -> None:
        self.workload = workload
        self.capacity = capacity
        requests = JobRequests(capacity, workload.processors.tolist(), workload.estimate_s.tolist(), questions, machine)
        self.policy = make_policy(requests)
        self._submit = [*workload.submit_s.tolist(), NEVER]
        self._run: list[float] = workload.run_s.tolist()
        self._arrive: Callable[[float, int], Sequence[int]] = self.policy.submitted
        self._leave: Callable[[float, int], Sequence[int]] = self.policy.ended
        self._lasts: Callable[[int], float] = self._run.__getitem__
        self._starts = [NEVER] * len(workload)
        self._order: list[int] = []  # jobs in the order of their starts
        self._ends: list[tuple[float, int]] = [(NEVER, -1)]  # (end, position in order)
        self._submitted = 0
        self.now = 0.0

    @property
    def done(self) -> bool:
        """Return whether every job has ended."""
        return self._submitted == len(self.workload) and len(self._ends) == 1

    @property
    def ended(self) -> int:
        """Number of jobs that have ended."""
        return len(self._order) - len(self._ends) + 1

    @property
    def start_s(self) -> NDArray[np.float64]:
        """Start of each job, shape (jobs,); infinite if it has not started."""
        return np.array(self._starts)

    def advance(self, events: int) -> bool:
        """Handle the next ``events`` events, or as many as there are; return ``done``."""
        submit, starts, order, ends = self._submit, self._starts, self._order, self._ends
        policy, arrive, leave, lasts = self.policy, self._arrive, self._leave, self._lasts
        i, now = self._submitted, self.now
        for _ in range(events):
            coming, next_end = submit[i], ends[0][0]
            if policy.wake_s <= coming and policy.wake_s <= next_end and policy.wake_s < NEVER:
                now = policy.wake_s
                policy.ending = {order[place] for end, place in ends if end == now} if next_end == now else ()
                begun = policy.woken(now)
            elif coming <= next_end:
                if coming == NEVER:
                    self._check_all_started(now)
                    break
                now = coming
                begun = arrive(now, i)
                i += 1
            else:
                now, place = heappop(ends)
                begun = leave(now, order[place])
            for job in begun:
                starts[job] = now
                heappush(ends, (now + lasts(job), len(order)))
                order.append(job)
        self._submitted, self.now = i, now
        return self.done

    def _check_all_started(self, now: float) -> None:
        if NEVER in self._starts:
            waiting = [job for job, start in enumerate(self._starts) if start == NEVER]
            raise RuntimeError(
                f"{len(waiting):,} jobs wait for ever, the first of them job {waiting[0] + 1}: nothing runs at "
                f"{now:g} s, and the policy starts none of them"
            )
