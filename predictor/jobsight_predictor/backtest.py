"""What forecasts would have been worth: every job forecast before it was learned (docs/definitions.md, Backtest)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .bounds import Objective
from .coverages import coverages
from .forecasters import FIVE, FORECASTERS, Exponential, Floats
from .profile import Profile
from .quality import NEAR, RECENT
from .reservations import RULES, cost
from .rivals import at_its_failures
from .scores import Indices, accuracies, auc, calibration, hindsight, summary
from .templates import DEFAULT_TEMPLATES, Question, Template, Templates
from .ticket import Ticket

Protocol = Literal["completion", "submission"]
Grouping = Literal["user", "template"]

HISTORIES = (0, 1, 5, 20, 100, 1000)
"""Steps of how much is known of a user, by which accuracy is told apart."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """A workload of n jobs: one value each, in one unit. Arrays are (n,), times in seconds.

    `requested` is what the user asked for, in the unit of the values, NaN where unknown; `skipped` counts, by
    reason, what was in the source and is not here.
    """

    name: str
    metric: str
    questions: Sequence[Question]
    submitted: Floats
    ended: Floats
    values: Floats
    seconds: Floats
    requested: Floats
    skipped: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.questions)
        for name in ("submitted", "ended", "values", "seconds", "requested"):
            if getattr(self, name).shape != (n,):
                raise ValueError(f"{name} has shape {getattr(self, name).shape}, for {n} jobs: it has to be ({n},)")
        good = (self.values >= 0.0) & np.isfinite(self.values)
        if not good.all():
            raise ValueError(f"values has {self.values[~good][0]!r}: skip and count what is no measurement")
        if (self.ended < self.submitted).any():
            raise ValueError("a job ended before it was submitted: skip and count it")

    def __len__(self) -> int:
        return len(self.questions)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What Jobsight would have said of each job, arrays (n,), NaN where it had nothing to say."""

    forecasts: Floats
    bounds: Floats
    probabilities: Floats
    profile: Profile


def known_when_asked(submitted: Floats, ended: Floats) -> tuple[Indices, Indices]:
    """(order, known): indices of the jobs in order of completion; how many of those had ended when each was submitted.

    A job that ended at the instant of a submission counts as ended; a job never counts as ended before itself.
    """
    order = np.argsort(ended, kind="stable")
    known = np.searchsorted(ended[order], submitted, side="right")
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    return order, np.minimum(known, place)


def _learned(jobs: Jobs, group: Indices, protocol: Protocol) -> tuple[Indices, Indices]:
    """(order in which the jobs of a group are learned, how many of them are known as each is submitted)."""
    if protocol == "completion":
        return known_when_asked(jobs.submitted[group], jobs.ended[group])
    order = np.argsort(jobs.submitted[group], kind="stable")
    known = np.empty(len(group), dtype=np.intp)
    known[order] = np.arange(len(group))
    return order, known


def replay_forecaster(
    name: str, jobs: Jobs, groups: Sequence[Indices], protocol: Protocol, *, raw: bool = False
) -> Floats:
    """Forecasts of one forecaster per group of jobs, (n,), NaN where there was none.

    `raw` takes the exponential forecast before clipping, as published.
    """
    forecasts = np.full(len(jobs), np.nan)
    forecaster = FORECASTERS[name]()
    replay = forecaster.raw_replay if raw and isinstance(forecaster, Exponential) else forecaster.replay
    for group in groups:
        order, known = _learned(jobs, group, protocol)
        # One value more at the end: its forecast is the one after all have been learned.
        after = replay(np.append(jobs.values[group][order], 0.0))
        forecasts[group] = after[known]
    return forecasts


def in_time(jobs: Jobs, protocol: Protocol) -> Iterator[tuple[Literal["submit", "finish"], int]]:
    """The submissions and ends of all jobs in the order in which a server would learn of them.

    At one instant ends come before submissions. Under the submission protocol each job ends as it is submitted.
    """
    if protocol == "submission":
        for i in np.argsort(jobs.submitted, kind="stable").tolist():
            yield "submit", i
            yield "finish", i
        return
    submitted, ended = jobs.submitted.tolist(), jobs.ended.tolist()
    coming = np.argsort(jobs.submitted, kind="stable").tolist()
    ending = np.argsort(jobs.ended, kind="stable").tolist()
    began = [False] * len(jobs)
    k = 0
    for i in coming:
        while k < len(ending) and ended[ending[k]] <= submitted[i]:
            if not began[ending[k]]:  # ends at the instant of its own submission, still to come
                break
            yield "finish", ending[k]
            k += 1
        began[i] = True
        yield "submit", i
    for i in ending[k:]:
        yield "finish", i


def replay_jobsight(
    jobs: Jobs,
    protocol: Protocol,
    templates: Sequence[Template] = DEFAULT_TEMPLATES,
    coverage: float = 0.95,
    objective: Objective = "cost",
) -> Replayed:
    """What a scheduler would have been told of each job at its submission."""
    n = len(jobs)
    profile = Profile("", templates, coverage, metric=jobs.metric, objective=objective)
    said = np.full((3, n), np.nan)
    values, seconds = jobs.values.tolist(), jobs.seconds.tolist()
    tickets: dict[int, Ticket] = {}
    for event, i in in_time(jobs, protocol):
        if event == "submit":
            tickets[i] = profile.look(jobs.questions[i])
            continue
        ticket = tickets.pop(i)
        profile.learn(jobs.questions[i], values[i], ticket, seconds[i])
        if ticket.value is not None:
            said[0, i], said[2, i] = ticket.value, ticket.probability
        if ticket.bound is not None:
            said[1, i] = ticket.bound
    return Replayed(said[0], said[1], said[2], profile)


def reserve_by_rule(name: str, jobs: Jobs, users: Sequence[Indices], protocol: Protocol) -> Floats:
    """What a rival rule would have reserved for each job, (n,), NaN where it knew nothing; per user."""
    reserved = np.full(len(jobs), np.nan)
    for group in users:
        order, known = _learned(jobs, group, protocol)
        rule = RULES[name]()
        values, seconds = jobs.values[group][order].tolist(), jobs.seconds[group][order].tolist()
        answers = np.full(len(group) + 1, np.nan)
        for k in range(len(group) + 1):
            answer = rule.reserve()
            answers[k] = np.nan if answer is None else answer
            if k < len(group):
                rule.learn(values[k], seconds[k])
        reserved[group] = answers[known]
    return reserved


def pqm_when_asked(jobs: Jobs, users: Sequence[Indices], protocol: Protocol) -> tuple[Floats, Floats]:
    """(PQM, recent PQM) of its user's history at each job's submission, each (n,), NaN below two values."""
    whole, recent = np.full(len(jobs), np.nan), np.full(len(jobs), np.nan)
    for group in users:
        order, known = _learned(jobs, group, protocol)
        values = jobs.values[group][order]
        near = _near(values, values[0])
        shares = np.full((2, len(group) + 1), np.nan)
        shares[0, 2:] = (np.cumsum(near) / np.arange(1, len(group) + 1))[1:]
        for k in range(2, len(group) + 1):
            last = values[max(0, k - RECENT) : k]
            shares[1, k] = _near(last, last[-1]).mean()
        whole[group], recent[group] = shares[0, known], shares[1, known]
    return whole, recent


def run_backtest(
    jobs: Jobs,
    *,
    protocol: Protocol = "completion",
    group: Grouping = "user",
    forecasters: Sequence[str] = FIVE,
    templates: Sequence[Template] = DEFAULT_TEMPLATES,
    coverage: float = 0.95,
    objective: Objective = "cost",
    rivals: bool = False,
    progress: Callable[[str, float], None] | None = None,
) -> dict[str, Any]:
    """The whole account of one workload, in the shape that `jobsight backtest --json` prints.

    `rivals` compares with each rival rule at its own number of failures, and replays the bounds anew where that takes
    another target. `progress` is told what comes next and the share that is done. ValueError for a forecaster that
    does not exist.
    """
    if unknown := set(forecasters) - set(FORECASTERS):
        raise ValueError(f"no forecaster {sorted(unknown)}; choose from {', '.join(FORECASTERS)}")
    tell = progress or (lambda _step, _done: None)
    users = grouped([question.user for question in jobs.questions])
    groups = users if group == "user" else _by_template(jobs, templates)
    said_of: dict[str, Floats] = {}
    for i, name in enumerate(forecasters):
        tell(name, 0.4 * i / len(forecasters))
        said_of[name] = replay_forecaster(name, jobs, groups, protocol)
        if name == "exponential":
            said_of["exponential-unclipped"] = replay_forecaster(name, jobs, groups, protocol, raw=True)
    tell("jobsight", 0.4)
    replayed = replay_jobsight(jobs, protocol, templates, coverage, objective)

    def bounds_at(target: float) -> Floats:
        return replay_jobsight(jobs, protocol, templates, target, objective).bounds

    tell("quality", 0.8)
    compared = ~np.isnan(replayed.forecasts)
    for forecasts in said_of.values():
        compared &= ~np.isnan(forecasts)
    hits = accuracies(replayed.forecasts, jobs.values)
    near = np.abs(replayed.forecasts - jobs.values) <= NEAR * jobs.values
    whole, recent = pqm_when_asked(jobs, users, protocol)
    good = hits > 1.0 - NEAR
    alike = [user for user in users if len(user) >= 2 and _final_pqm(jobs, user, protocol) > 0.8]
    tell("rivals", 0.9)
    return {
        "trace": jobs.name,
        "metric": jobs.metric,
        "protocol": protocol,
        "group": group,
        "jobs": len(jobs),
        "users": len(users),
        "skipped": dict(jobs.skipped),
        "compared": int(compared.sum()),
        "forecasters": {name: summary(said, jobs.values, users, compared) for name, said in said_of.items()},
        "hindsight": hindsight([said_of[name] for name in forecasters], jobs.values, users, compared),
        "jobsight": summary(replayed.forecasts, jobs.values, users, compared),
        "regret": _regret(jobs, replayed.profile),
        "by_history": _by_history(replayed.forecasts, jobs, users, protocol),
        "bounds": {
            "target": coverage,
            "objective": objective,
            **_cost_line(replayed.bounds, jobs),
            **coverages(
                replayed.bounds,
                replayed.forecasts,
                jobs.values,
                jobs.seconds,
                np.argsort(jobs.ended if protocol == "completion" else jobs.submitted, kind="stable"),
                users,
            ),
        },
        **_rivals(jobs, users, coverage, replayed.bounds, bounds_at if rivals else None, protocol),
        "quality": {
            "auc": auc(replayed.probabilities, good),
            "recent_pqm_auc": auc(recent, good),
            "calibration": calibration(replayed.probabilities, near),
        },
        "pqm": {
            "auc": auc(whole, good),
            "users_above_0.8": len(alike),
            "accuracy_above_0.8": float(hits[np.concatenate(alike)].mean()) if alike else None,
        },
    }


def grouped(keys: Sequence[Any]) -> list[Indices]:
    """The indices of each key, in order of first appearance."""
    members: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        members.setdefault(key, []).append(i)
    return [np.array(indices, dtype=np.intp) for indices in members.values()]


def _by_template(jobs: Jobs, templates: Sequence[Template]) -> list[Indices]:
    levels = Templates(templates)
    return grouped([levels.keys(question)[0][1] for question in jobs.questions])


def _rivals(
    jobs: Jobs,
    users: Sequence[Indices],
    coverage: float,
    bounds: Floats,
    bounds_at: Callable[[float], Floats] | None,
    protocol: Protocol,
) -> dict[str, Any]:
    """The cost of Jobsight's bounds and of each rule, all on the jobs for which every rule that says anything at all

    reserves. With `bounds_at`, which replays Jobsight's for another target, each rule has those at its own number of
    failures, too.
    """
    known = {coverage: bounds}

    def remembered(target: float) -> Floats:
        if target not in known and bounds_at is not None:
            known[target] = bounds_at(target)
        return known[target]

    reservations = {"request": jobs.requested}
    reservations |= {name: reserve_by_rule(name, jobs, users, protocol) for name in RULES}
    both = ~np.isnan(bounds)
    for reserved in reservations.values():
        if not np.isnan(reserved).all():
            both &= ~np.isnan(reserved)
    lines: dict[str, dict[str, Any]] = {name: _cost_line(line, jobs, both) for name, line in reservations.items()}
    if bounds_at is not None:
        for name, reserved in reservations.items():
            lines[name]["jobsight_at_its_failures"] = at_its_failures(
                reserved, jobs.values, jobs.seconds, remembered, first=coverage
            )
    return {"bounds_compared": _cost_line(bounds, jobs, both), "rivals": lines}


def _regret(jobs: Jobs, profile: Profile) -> dict[str, float | None]:
    """Capped relative error summed over all jobs: of the answers, and of each user's best candidate in hindsight."""
    regrets = [profile.regret(user) for user in dict.fromkeys(question.user for question in jobs.questions)]
    known = [regret for regret, _ in filter(None, regrets)]
    answered, best = sum(regret.answered for regret in known), sum(regret.best for regret in known)
    return {"answered": answered, "best": best, "per_job": (answered - best) / len(jobs) if len(jobs) else None}


def _by_history(
    forecasts: Floats, jobs: Jobs, users: Sequence[Indices], protocol: Protocol
) -> list[dict[str, float | int | None]]:
    """Accuracy of the answers by how many of the user's jobs were known `from` so many on, up to the next line.

    A job for which there was no answer is in no line.
    """
    hits = accuracies(forecasts, jobs.values)
    known = np.zeros(len(jobs), dtype=np.intp)
    for user in users:
        known[user] = _learned(jobs, user, protocol)[1]
    step = np.searchsorted(HISTORIES, known, side="right") - 1
    step[np.isnan(forecasts)] = -1
    counts = [int((step == k).sum()) for k in range(len(HISTORIES))]
    return [
        {"from": least, "jobs": counts[k], "micro": float(hits[step == k].mean()) if counts[k] else None}
        for k, least in enumerate(HISTORIES)
    ]


def _final_pqm(jobs: Jobs, user: Indices, protocol: Protocol) -> float:
    order = np.argsort((jobs.ended if protocol == "completion" else jobs.submitted)[user], kind="stable")
    values = jobs.values[user][order]
    return float(_near(values, values[0]).mean())


def _near(values: Floats, reference: float) -> NDArray[np.bool_]:
    near: NDArray[np.bool_] = np.abs(values - reference) < NEAR * reference if reference else values == 0.0
    return near


def _cost_line(reserved: Floats, jobs: Jobs, among: NDArray[np.bool_] | None = None) -> dict[str, float | int | None]:
    """Cost over the jobs `among` which rules are compared, (n,), and the share of all jobs that were reserved for."""
    share = float((~np.isnan(reserved)).mean()) if len(jobs) else None
    paid = cost(reserved if among is None else np.where(among, reserved, np.nan), jobs.values, jobs.seconds)
    if paid is None:
        return {"coverage": None, "failures": None, "maq": None, "wasted": None, "jobs": 0, "share": share}
    return {
        "coverage": paid.coverage,
        "failures": paid.failures,
        "maq": paid.maq,
        "wasted": paid.wasted,
        "jobs": paid.jobs,
        "share": share,
    }
