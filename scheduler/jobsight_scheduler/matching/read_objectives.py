"""The ordered list of objectives, from what was decoded from JSON."""

from __future__ import annotations

from collections.abc import Sequence

from .documents import ObjectiveDocument
from .expressions import expression, once
from .objectives import constant_of
from .problem import MATCH_NOTHING, OBJECTIVES, InvalidProblemError, Objective, shipped


def read_objectives(entries: Sequence[str | ObjectiveDocument], place: str) -> tuple[Objective, ...]:
    """Names of objectives that ship, or documents.

    Raises:
        InvalidProblemError: one is not known, or one is there twice.
    """
    found = tuple(
        _objective(ObjectiveDocument(entry) if isinstance(entry, str) else entry, f"{place}[{index}]")
        for index, entry in enumerate(entries)
    )
    once([objective.name for objective in found], place)
    return found


def warnings_of(objectives: tuple[Objective, ...]) -> tuple[str, ...]:
    """What an administrator should know of these objectives."""
    if objectives[0].kind not in MATCH_NOTHING:
        return ()
    return (f"the objective {objectives[0].name!r} alone is best when nothing is matched; put 'throughput' before it",)


def _objective(entry: ObjectiveDocument, place: str) -> Objective:
    texts = {"Z": entry.z, "X": entry.x, "S": entry.s, "F": entry.f}
    coefficients = {name: expression(text, f"{place}.{name}") for name, text in texts.items() if text is not None}
    chosen = entry.resources, entry.type
    if coefficients:
        if entry.name in OBJECTIVES:
            raise InvalidProblemError(f"{place}.name: {entry.name!r} is one that ships; give your own another name")
        is_max = entry.sense != "min"
        largest = constant_of(coefficients["F"]) if "F" in coefficients else 0.0
        if largest and is_max == (largest > 0.0):
            sense = "max" if is_max else "min"
            raise InvalidProblemError(
                f"{place}.F: {largest:g} with sense {sense} seeks a larger share; seek a smaller one"
            )
        own = Objective("own", entry.name, is_max, coefficients)
        if chosen == (None, None):
            return own
    elif entry.name not in OBJECTIVES:
        known = ", ".join(OBJECTIVES)
        raise InvalidProblemError(f"{place}: unknown objective {entry.name!r:.60}; known: {known}")
    if entry.name != "balance" and chosen != (None, None):
        raise InvalidProblemError(f"{place}: 'resources' and 'type' belong to balance, not to {entry.name}")
    if entry.sense is not None:
        raise InvalidProblemError(f"{place}: 'sense' belongs to an own objective, with Z, X, S or F")
    return Objective(entry.name, entry.name, shipped(entry.name).is_max, resources=entry.resources, type=entry.type)
