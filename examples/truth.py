"""Compares the server's profiles with the replay's truth."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sqlalchemy import Engine, text

TRUE_COLUMNS = {"bandwidth": "bandwidth_bps_per_processor", "memory": "memory_peak_bytes_per_processor"}
_PROFILES = text(
    "SELECT jobs.cluster, jobs.job_id, jobs.start, profiles.metric, profiles.value, profiles.reason, "
    "profiles.source, profiles.attribution FROM jobs JOIN profiles ON profiles.run_id = jobs.id"
)


@dataclass(slots=True)
class Verdict:
    """Number of compared true runs with a value, and within 1 %, per metric."""

    judged: int = 0
    valued: Counter[str] = field(default_factory=Counter)
    within: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    missing_runs: list[str] = field(default_factory=list)
    worst: list[tuple[float, str]] = field(default_factory=list)

    def share(self, metric: str) -> float:
        """Return the share within 1 % of the truth among runs with a value; 0 without any."""
        return self.within[metric] / self.valued[metric] if self.valued[metric] else 0.0


def judge(engine: Engine, truth: list[dict[str, str]], interval_s: float) -> Verdict:
    """Compare every true run on exclusive nodes of at least 10 sampling intervals with its profile.

    Jobs killed by an outage and run again are compared by their last run only, since accounting lacks other ends.
    """
    with engine.connect() as connection:
        found = {(row.cluster, row.job_id, float(row.start), row.metric): row for row in connection.execute(_PROFILES)}
    verdict = Verdict()
    for row in truth:
        if row["exclusive"] != "1" or float(row["runtime_s"]) < 10 * interval_s:
            continue
        verdict.judged += 1
        for metric, column in TRUE_COLUMNS.items():
            name = f"{row['cluster']} {row['job_id']} {row['start']} {metric}"
            profile = found.get((row["cluster"], row["job_id"], float(row["start"]), metric))
            if profile is None:
                verdict.missing_runs.append(name)
            elif profile.value is None:
                (verdict.reasons.update([profile.reason]) if profile.reason else verdict.unexplained.append(name))
            else:
                verdict.valued[metric] += 1
                true = float(row[column])
                error = abs(profile.value - true) / true
                verdict.within[metric] += error <= 0.01
                verdict.worst.append((error, f"{name}: {profile.value:.6g}, true {true:.6g} ({profile.source})"))
    verdict.worst.sort(reverse=True)
    return verdict
