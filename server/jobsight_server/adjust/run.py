"""One run of `jobsight adjust`: reads the queue, settles interrupted changes, plans, and makes or undoes changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from sqlalchemy import Engine

from jobsight_server.accounting.command_output import CommandError
from jobsight_server.adjust import ledger
from jobsight_server.adjust.plan import Needs, is_chosen, planned, planned_running
from jobsight_server.adjust.present import Amount, PresentJob, RequestChange, SchedulerCommands
from jobsight_server.adjust.trial import Arm, Trial, assign, assigned
from jobsight_server.decision.evidence import Resource
from jobsight_server.forecasts import AnswerReader
from jobsight_server.settings.tables import AdjustLimits

FAILURES_AT_MOST = 10
"""This many failed commands in a row end a run: something else is wrong."""


@dataclass(frozen=True, slots=True)
class Proposed:
    """A change and its ``outcome``, which is empty in a dry run. ``request``: the user's."""

    change: RequestChange
    request: float
    arm: Arm | None = None
    outcome: str = ""
    error: str = ""


@dataclass(slots=True)
class Result:
    """The changes that a run proposed or made; ``left`` counts the unchanged jobs by reason."""

    proposed: list[Proposed] = field(default_factory=list)
    resolved: list[ledger.Resolved] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Adjuster:
    """Changes jobs of ``cluster``; no job gets less than ``least``."""

    engine: Engine
    reader: AnswerReader
    scheduler: SchedulerCommands
    cluster: str
    limits: AdjustLimits
    least: Mapping[Resource, float]
    clock: Callable[[], float]

    def dry_run(self, trial: Trial | None = None) -> Result:
        """Return the changes that a run would make now. Change nothing, nor the database.

        Raises:
            CommandError: the queue cannot be read.
        """
        result = Result()
        self._plan(self.scheduler.look(), trial, result)
        return result

    def apply(self, trial: Trial | None = None) -> Result:
        """Make the changes, each recorded before.

        Raises:
            CommandError: the queue cannot be read.
        """
        result = Result()
        present = self._look_and_resolve(result)
        self._plan(present, trial, result)
        result.proposed = self._assigned(result.proposed, trial)
        failures = 0
        for number, one in enumerate(result.proposed):
            if one.arm == "none":
                result.proposed[number] = replace(one, outcome="control group of the trial")
                continue
            if failures == FAILURES_AT_MOST:
                result.proposed[number] = replace(one, outcome="not tried", error="too many commands failed")
                continue
            result.proposed[number] = done = self._make(one)
            failures = failures + 1 if done.outcome == ledger.FAILED else 0
        return result

    def undo(self, only: Collection[str] = ()) -> Result:
        """Restore the earlier requests of jobs, or ``only`` of these, newest change first.

        Raises:
            CommandError: the queue cannot be read.
        """
        result = Result()
        present = self._look_and_resolve(result)
        with self.engine.connect().execution_options(reading=True) as connection:
            rows = ledger.rows_of(connection, self.cluster, ledger.DONE)
        now_has: dict[tuple[str, str], int] = {}
        for row in reversed(rows):
            job = present.get(row.job_id)
            if only and row.job_id not in only:
                continue
            if job is None or job.user != row.user:
                result.left["the job is over"] += 1
                continue
            if row.resource == "memory" and job.start is not None:
                result.left["the job runs, and its memory cannot be changed any more"] += 1
                continue
            amount = job.amounts.get(row.resource)
            key = (row.job_id, row.resource)
            if amount is None or now_has.get(key, amount.value) != row.new:
                result.left["someone else has changed it since"] += 1
                continue
            change = RequestChange(job, row.resource, Amount(row.parameter, row.new, row.times), row.old, "undone")
            undone = self._undo(row.id, change)
            if undone.outcome == ledger.UNDONE:
                now_has[key] = row.old
            result.proposed.append(undone)
        return result

    def _look_and_resolve(self, result: Result) -> dict[str, PresentJob]:
        present = self.scheduler.look()
        with self.engine.begin() as connection:
            result.resolved = ledger.resolve(connection, self.cluster, present, self.clock())
        return present

    def _plan(self, present: dict[str, PresentJob], trial: Trial | None, result: Result) -> None:
        may = {"memory": self.limits.memory, "runtime": True}
        with self.engine.connect().execution_options(reading=True) as connection:
            needs = Needs(connection, self.reader, self.cluster, present)
            arms = {} if trial is None else assigned(connection, self.cluster, trial.seed)
            for job in sorted(present.values(), key=lambda job: (job.submitted, job.job_id)):
                if len(result.proposed) >= self.limits.jobs_at_most:
                    result.left["limit of changes per run"] += 1
                    continue
                if not is_chosen(self.cluster, job.user, self.limits):
                    result.left["user not in users_share"] += 1
                    continue
                known = needs.of(job)
                if known is None:
                    result.left["not read from the queue or the log yet"] += 1
                    continue
                changes: list[RequestChange | None] = []
                if job.start is None:
                    changes = [
                        planned(job, resource, known[resource], self.limits, self.least[resource])
                        for resource in job.amounts
                        if may[resource] and known[resource].request > 0
                    ]
                elif "runtime" in job.amounts:
                    changes = [planned_running(job, known["runtime"], self.clock(), self.limits)]
                found = [change for change in changes if change is not None]
                if not found:
                    result.left["no change is recommended"] += 1
                arm = None if trial is None else arms.get((job.job_id, job.submitted)) or trial.arm(self.cluster, job)
                result.proposed += [Proposed(change, known[change.resource].request, arm) for change in found]

    def _assigned(self, proposed: list[Proposed], trial: Trial | None) -> list[Proposed]:
        if trial is None:
            return proposed
        with self.engine.begin() as connection:
            arms = assigned(connection, self.cluster, trial.seed)
            for one in proposed:
                job = one.change.job
                if (job.job_id, job.submitted) not in arms:
                    arms[job.job_id, job.submitted] = assign(connection, self.cluster, trial, job, self.clock())
        return [replace(one, arm=arms[one.change.job.job_id, one.change.job.submitted]) for one in proposed]

    def _make(self, one: Proposed) -> Proposed:
        change = one.change
        try:
            exact = self.scheduler.exact(change.job, change.resource)
        except CommandError as error:
            return replace(one, outcome=ledger.FAILED, error=str(error))
        if exact is None:
            return replace(one, outcome="left", error="it has changed since, or its memory request is ambiguous")
        change = replace(change, old=exact)
        with self.engine.begin() as connection:
            number = ledger.begin(connection, self.cluster, change, one.request, self.clock())
        if number is None:
            return replace(one, outcome="left", error="another change of it is under way")
        state, message = self._ask(change, ledger.DONE)
        self._settle(number, state, message)
        return replace(one, change=change, outcome=state, error=message)

    def _undo(self, number: int, change: RequestChange) -> Proposed:
        with self.engine.begin() as connection:
            if not ledger.begin_undo(connection, number):
                return Proposed(change, 0.0, outcome="left", error="another change of it is under way")
        state, message = self._ask(change, ledger.UNDONE)
        # A change that could not be undone is still done.
        self._settle(number, ledger.DONE if state == ledger.FAILED else state, message)
        return Proposed(change, 0.0, outcome=state, error=message)

    def _ask(self, change: RequestChange, done: str) -> tuple[str, str]:
        try:
            self.scheduler.change(change.job, replace(change.old, value=change.new))
        except CommandError as error:
            return ledger.FAILED, str(error)
        return done, ""

    def _settle(self, number: int, state: str, error: str) -> None:
        with self.engine.begin() as connection:
            ledger.settle(connection, number, state, self.clock(), error or None)
