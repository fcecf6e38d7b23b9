"""Makes a class from outside usable as a policy, or says why it does not fit."""

from __future__ import annotations

import inspect
from typing import Any

from .base import JobRequests, Policy, PolicyError
from .entry import PolicyEntry
from .guarded import GuardedPolicy

CALLS = ("submitted", "ended")
"""What every policy has; ``woken``, ``wake_s``, ``state``, ``restore`` and ``rules`` are optional."""


def entry_of(own: Any, label: str) -> PolicyEntry:
    """The entry of the class ``own``, called ``label`` in messages.

    Its constructor takes the ``JobRequests``, and a run-time predictor if it has a second parameter: None without
    ``--predictor`` if that has a default.

    Raises:
        PolicyError: not a class, a method is missing, or a constructor that takes something else.
    """
    if not isinstance(own, type):
        raise PolicyError(f"{label} is {_kind(own)}, not a class; name a class with submitted() and ended()")
    missing = [name for name in CALLS if not callable(getattr(own, name, None))]
    missing += sorted(set(getattr(own, "__abstractmethods__", ())) - set(missing))
    if missing:
        raise PolicyError(
            f"{label} lacks {', '.join(f'{name}()' for name in missing)}: see jobsight_scheduler.policies.Policy"
        )
    predictor = _second_parameter(own, label)
    rules = getattr(own, "rules", ())
    if not isinstance(rules, tuple) or not all(map(callable, rules)):
        raise PolicyError(f"{label}: rules is {rules!r}; give a tuple of the validator's checks")

    def make(requests: JobRequests, run_times: Any = None) -> Policy:
        needed = predictor is not None and predictor.default is predictor.empty
        if run_times is None and needed:
            raise PolicyError(f"{label} needs a run-time predictor: give --predictor")
        arguments = (requests,) if run_times is None else (requests, run_times)
        return GuardedPolicy(requests, lambda: own(*arguments), label)

    return PolicyEntry(make, rules=rules, takes_predictor=predictor is not None, needs_questions=True)


def _second_parameter(own: type, label: str) -> inspect.Parameter | None:
    try:
        signature = inspect.signature(own)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{label}: its constructor cannot be examined ({error}); write it in Python") from error
    parameters = signature.parameters.values()
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = [p for p in parameters if p.kind is p.KEYWORD_ONLY or p in places[2:]]
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if not (places or several) or any(p.default is p.empty for p in rest):
        raise PolicyError(
            f"{label}{signature} does not fit: its constructor takes (requests), or (requests, predictor)"
        )
    return places[1] if len(places) > 1 else None


def _kind(thing: Any) -> str:
    return "a function" if inspect.isroutine(thing) else "a module" if inspect.ismodule(thing) else repr(thing)[:60]
