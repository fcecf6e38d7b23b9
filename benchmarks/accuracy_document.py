"""Fills docs/use/accuracy.md with the results of the backtests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from string import Template
from typing import Any

from calibration_document import kept
from sizing.table import markdown

from jobsight_predictor.forecasters import FIVE

Account = Mapping[str, Any]
Accounts = Mapping[tuple[str, str], Account]
"""By workload and metric."""

TEXT = Path(__file__).with_name("accuracy_text.md.in")

BASELINES = {
    "request": "request",
    "maximum": "maximum",
    "p90-x-1.15": "P90 x 1.15",
    "first-allocation": "first allocation",
}
BEHAVIOURS = {"X": "with spikes", "Y": "drifting", "Z": "switching"}


def document(completion: Accounts, submission: Accounts, users: Mapping[str, Any], before: str) -> str:
    """Write the whole document. `users`: text about single users; `before`: the current
    document, whose calibration stays (another benchmark measures it)."""
    return Template(TEXT.read_text(encoding="utf-8")).substitute(
        short=_short(completion),
        expect=_expect(completion),
        five=_forecasters(completion),
        gains=_gains(completion, submission),
        held=_held(completion),
        cheapest=_cheapest(completion),
        bounds=_bounds(completion),
        pictures=_pictures(completion),
        quality=_quality(completion),
        calibration=kept(before),
        real=", ".join(
            f"{users['real'][kind]} ({words})" for kind, words in BEHAVIOURS.items() if kind in users["real"]
        )
        or "none",
        missed="; ".join(f"{name}: {', '.join(map(str, n)) or 'no jump'}" for name, n in users["missed"].items()),
        ranking=_ranking(users["accuracy"]),
        failures=_failures(completion),
    )


def _short(accounts: Accounts) -> str:
    rows = []
    for key, found in accounts.items():
        name = max(FIVE, key=lambda name: found["forecasters"][name]["micro"])
        best = f"{_pair(found['forecasters'][name])} ({name})"
        counts = (f"{found['jobs']:,}", f"{found['users']:,}")
        rows.append([", ".join(key), *counts, best, _pair(found["hindsight"]), f"**{_pair(found['jobsight'])}**"])
    names = ("workload", "jobs", "users", "best of the five", "best per user in hindsight", "Jobsight")
    return markdown(names, rows)


def _expect(accounts: Accounts) -> str:
    rows = []
    names: list[str] = []
    for key, found in accounts.items():
        steps, ours = found["by_history"], found["jobsight"]
        names = [f"{line['from']}+" if line["from"] else "0 known" for line in steps]
        accuracy = [_figure(line["micro"]) for line in steps]
        rows.append([", ".join(key), *accuracy, _percent(ours["within20"]), _percent(ours["under_rate"])])
    return markdown(("workload", *names, "within 20 %", "too low"), rows)


def _forecasters(accounts: Accounts) -> str:
    rows = [
        [", ".join(key), *(_figure(found["forecasters"][name]["micro"]) for name in FIVE)]
        for key, found in accounts.items()
    ]
    return markdown(("workload", *FIVE), rows)


def _gains(completion: Accounts, submission: Accounts) -> str:
    gains = [a["jobsight"]["micro"] - completion[key]["jobsight"]["micro"] for key, a in submission.items()]
    return f"{min(gains):+.3f} to {max(gains):+.3f}" if gains else "an unknown amount"


def _held(accounts: Accounts) -> str:
    """Write the coverage of the bounds, overall and by groups."""
    rows = []
    for key, found in accounts.items():
        line, users = found["bounds"], found["bounds"]["users"]
        shares = (line["coverage"], line["cost_coverage"], line["maq"], line["lowest_so_far"], line["windows"]["worst"])
        rows.append([", ".join(key), *map(_figure, shares), f"{users['low']} of {users['users']}"])
    names = ("by jobs", "by value x s", "MAQ", "lowest so far", "worst 500 jobs", "users under .92")
    return markdown(("workload", *names), rows)


def _cheapest(accounts: Accounts) -> str:
    """Compare the waste with the cheapest of three rules, each at its own failures, on the same jobs."""
    rows = []
    for key, found in accounts.items():
        wasted = {name: found["baselines"][name]["wasted"] for name in ("request", "maximum", "p90-x-1.15")}
        there = {name: waste for name, waste in wasted.items() if waste}
        if there:
            best = min(there, key=there.__getitem__)
            ours = found["bounds_compared"]
            rule = f"{BASELINES[best]} ({_figure(found['baselines'][best]['coverage'])})"
            rows.append([", ".join(key), rule, _figure(ours["coverage"]), _figure(ours["wasted"] / there[best])])
    return markdown(("workload", "cheapest rule (what it holds)", "Jobsight holds", "Jobsight wastes, times"), rows)


def _bounds(accounts: Accounts) -> str:
    rows = []
    for key, found in accounts.items():
        for name, words in BASELINES.items():
            line = found["baselines"][name]
            if matched := line.get("jobsight_at_its_failures"):
                mark = "*" if matched["failures"] > matched["baseline_failures"] else ""
                figures = map(_figure, (line["coverage"], line["maq"]))
                rows.append([", ".join(key), words, *figures, _figure(matched["maq"]) + mark])
    return markdown(("workload", "rule", "covers", "MAQ", "Jobsight's MAQ"), rows)


def _pictures(accounts: Accounts) -> str:
    return "\n\n".join(
        f"![{trace}, {metric}](accuracy/{trace.lower()}-{metric}.svg)"
        for (trace, metric), found in accounts.items()
        if "jobsight_at_its_failures" in found["baselines"]["request"]
    )


def _quality(accounts: Accounts) -> str:
    rows = []
    for key, found in accounts.items():
        aucs = (found["quality"]["auc"], found["quality"]["recent_pqm_auc"], found["pqm"]["auc"])
        rows.append([", ".join(key), *map(_figure, aucs)])
    return markdown(("workload", "Jobsight's probability", "recent PQM", "PQM"), rows)


def _ranking(accuracy: Mapping[str, Mapping[str, float]]) -> str:
    behind = [max(mine[name] for name in FIVE) - mine["Jobsight"] for mine in accuracy.values()]
    ahead = sum(gap <= 0.0 for gap in behind)
    return (
        f"Jobsight leads for {ahead} of {len(behind)}, and is never more than {max(0.0, *behind):.3f} behind the best."
    )


def _failures(accounts: Accounts) -> str:
    def where(wrong: Callable[[Account], bool]) -> str:
        return ", ".join(" ".join(key) for key, found in accounts.items() if wrong(found)) or "nowhere"

    def below(kind: str) -> str:
        five = where(lambda a: any(a["jobsight"][kind] < a["forecasters"][name][kind] for name in FIVE))
        best = where(lambda a: a["jobsight"][kind] < a["hindsight"][kind])
        return f"Below one of the five, {kind}: {five}. Below the best of them per user in hindsight, {kind}: {best}."

    hardest = sorted(accounts.items(), key=lambda item: item[1]["jobsight"]["micro"])[:3]
    lows = [found["jobsight"]["under_rate"] for found in accounts.values()]
    more = {key: found["mean_error"]["answered"] - found["mean_error"]["best"] for key, found in accounts.items()}
    points = (
        "Hardest: " + ", ".join(f"{' '.join(key)} ({_figure(a['jobsight']['micro'])})" for key, a in hardest) + ".",
        f"Forecasts are too low for {_percent(min(lows))} to {_percent(max(lows))} of jobs: do not kill by them.",
        below("micro"),
        below("macro"),
        f"Bounds at 95 % that cover less than 93 % or more than 97 %: {where(_off_target)}.",
        f"Share held so far below 92 % at some time from the 200th job on: {where(_ever_low)}.",
        f"Waste more than 5 % above the cheapest rule's: {where(_dearer)}.",
        f"Bounds with a lower MAQ than a rule at no more failures, or that cannot fail as rarely: {where(_outdone)}.",
        "Answers with larger errors than the best single candidate (forecaster and job group) of each user "
        "in hindsight: "
        + where(lambda a: a["mean_error"]["answered"] > a["mean_error"]["best"])
        + f"; by at most {max(more.values()):.3f} per job.",
    )
    return "\n".join(f"- {point}" for point in points)


def _off_target(found: Account) -> bool:
    return not 0.93 <= found["bounds"]["coverage"] <= 0.97


def _ever_low(found: Account) -> bool:
    return (found["bounds"]["lowest_so_far"] or 1.0) < 0.92


def _dearer(found: Account) -> bool:
    wasted = [found["baselines"][name]["wasted"] for name in ("request", "maximum", "p90-x-1.15")]
    cheapest = min([waste for waste in wasted if waste], default=None)
    return cheapest is not None and bool(found["bounds_compared"]["wasted"] > 1.05 * cheapest)


def _outdone(found: Account) -> bool:
    matched = [line.get("jobsight_at_its_failures") for line in found["baselines"].values()]
    return any(m["maq"] < m["baseline_maq"] or m["failures"] > m["baseline_failures"] for m in matched if m)


def _pair(line: Account) -> str:
    return f"{_figure(line['micro'])} / {_figure(line['macro'])}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"
