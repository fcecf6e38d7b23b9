"""The policies that ``jobsight simulate`` runs: built-in ones, ``module:Class``, or installed entry points."""

from __future__ import annotations

import argparse
import importlib
import sys
from importlib import metadata
from operator import attrgetter
from pathlib import Path
from typing import Any

from jobsight_scheduler.policies.base import PolicyError
from jobsight_scheduler.policies.chosen import POLICIES, ChosenPolicy, PolicyEntry, choose_policy
from jobsight_scheduler.policies.multifactor import PriorityWeights, priority_weights
from jobsight_scheduler.policies.own import entry_of
from jobsight_server.storage.errors import UserError

GROUP = "jobsight.policies"
"""Entry points of installed packages; built-in policies cannot be replaced."""


def chosen_policies(args: argparse.Namespace) -> list[ChosenPolicy]:
    """Return ``--policy`` and those of ``--against``, with the predictor and the weights where a policy takes them.

    Raises:
        UserError: no such policy, or an option that its policy does not take.
    """
    weights = _weights(args.priority)
    names = (args.policy, *args.against)
    found = [_chosen(name, args, weights, is_first=not place) for place, name in enumerate(names)]
    if weights is not None and not any(policy.weights for policy in found):
        raise UserError(f"--priority: {args.policy} has no priority weights; multifactor has")
    return found


def _chosen(name: str, args: argparse.Namespace, weights: PriorityWeights | None, *, is_first: bool) -> ChosenPolicy:
    entry = policy_called(name)
    predictor = args.predictor if is_first or entry.takes_predictor else None
    try:
        return choose_policy(name, predictor, entry, weights)
    except ValueError as error:
        raise UserError(f"--policy {error}") from error


def _weights(given: list[str] | None) -> PriorityWeights | None:
    if given is None:
        return None
    named = {name: number for name, _, number in (text.partition("=") for text in given)}
    try:
        if len(named) < len(given):
            raise ValueError("give each weight once")
        return priority_weights({name: float(number) for name, number in named.items()})
    except ValueError as error:
        raise UserError(f"--priority {' '.join(given)[:100]}: {error}; give weights such as age=1000") from error


def installed_policies() -> dict[str, str]:
    """``module:Class`` of each entry point, by name; those with the same name are joined by a comma."""
    found: dict[str, set[str]] = {}
    for point in metadata.entry_points(group=GROUP):
        found.setdefault(point.name, set()).add(point.value)
    return {name: ", ".join(sorted(found[name])) for name in sorted(found.keys() - POLICIES.keys())}


def policy_called(name: str) -> PolicyEntry:
    """Return the built-in or installed policy, or that of ``module:Class``.

    Modules are searched for on Python's path, and last in the current directory.

    Raises:
        UserError: no such policy, its module cannot be imported, or the class does not fit.
    """
    if name in POLICIES:
        return POLICIES[name]
    installed = installed_policies()
    place = installed.get(name, name)
    if "," in place:
        raise UserError(f"--policy {name}: several packages install it ({place}); give one of these")
    module, colon, path = place.partition(":")
    if not colon or not module or not path:
        known = ", ".join((*POLICIES, *installed))
        raise UserError(f"--policy {name[:100]}: unknown policy; choose from {known}, or give module:Class of your own")
    try:
        return entry_of(_named(_imported(module, name), path, name), name)
    except PolicyError as error:
        raise UserError(f"--policy {error}") from error


def _imported(module: str, name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise UserError(
                f"--policy {name}: no module {error.name!r} in {here} or on Python's path; set PYTHONPATH "
                "to its directory, or install it"
            ) from error
        raise UserError(f"--policy {name}: {module} needs {error.name!r}, which is not installed") from error
    except Exception as error:  # external code may raise anything
        raise UserError(f"--policy {name}: importing {module} failed: {type(error).__name__}: {error}") from error


def _named(module: Any, path: str, name: str) -> Any:
    try:
        return attrgetter(path)(module)
    except AttributeError as error:
        classes = [key for key, value in vars(module).items() if isinstance(value, type) and key[0] != "_"]
        raise UserError(
            f"--policy {name}: {module.__name__} has no {path}; its classes are {', '.join(classes) or 'none'}"
        ) from error
