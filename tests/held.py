"""An audit of the matches in a database, in plain SQL."""

from __future__ import annotations

import json
from collections import defaultdict

from sqlalchemy import Engine, text

_HELD = text("SELECT h.* FROM holds h JOIN matches m ON m.id = h.match_id WHERE m.state = 'held' AND m.until > :n")
_GANGS = text("SELECT id, job FROM matches WHERE state = 'held' AND until > :n")


def over_capacity(engine: Engine, now: float) -> list[str]:
    """Find faults in the tables with plain SQL: capacities exceeded, or matches that are not whole."""
    is_postgresql = engine.dialect.name == "postgresql"
    snapshot = {"isolation_level": "REPEATABLE READ"} if is_postgresql else {"reading": True}
    with engine.connect().execution_options(**snapshot) as connection:
        totals = {
            (row.id, name): total
            for row in connection.execute(text("SELECT id, capacities FROM resources"))
            for name, (total, _) in json.loads(row.capacities).items()
        }
        held: defaultdict[tuple[int, str], float] = defaultdict(float)
        parts: defaultdict[int, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        for row in connection.execute(_HELD, {"n": now}):
            parts[row.match_id][row.dependency] += 1
            for name, amount in json.loads(row.amounts).items():
                held[row.resource_id, name] += amount
        faults = [f"{key}: {held[key]} of {totals[key]}" for key in held if held[key] > totals[key] * (1 + 1e-9)]
        for row in connection.execute(_GANGS, {"n": now}):
            wanted = {d["name"]: d.get("count", 1) for d in json.loads(row.job)["dependencies"]}
            if dict(parts[row.id]) != wanted:
                faults.append(f"match {row.id}: {dict(parts[row.id])}, not {wanted}")
    return faults
