"""What a scheduler's own commands report, and what Jobsight needs to install there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from jobsight_server.setup.plan import Item, PlannedToken


@dataclass(frozen=True, slots=True)
class SchedulerSetup:
    """A scheduler as it is configured now.

    ``source`` is its table [[accounting]] without the cluster's name, ``submitter`` the token with which it asks for
    advice, ``items`` what its plugins need, ``hook_copies`` where nodes need the script ``mark-job``,
    ``munge_socket`` by which users prove who they are ("": they cannot). ``comment`` is what the scheduler
    shows of Jobsight's advice for a job; None where it keeps none.
    """

    kind: str
    cluster: str
    nodes: tuple[str, ...]
    source: str
    shown: dict[str, str]
    submit: Callable[[str, str], str]
    submitter: PlannedToken | None = None
    items: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hook_copies: tuple[str, ...] = ()
    munge_socket: str = ""
    comment: Callable[[str], str] | None = None
    checks: Callable[[], Iterator[Finding]] = lambda: iter(())


@dataclass(frozen=True, slots=True)
class Finding:
    """``good`` is None for what is optional but worth knowing; ``todo`` says what to do about it."""

    what: str
    good: bool | None
    todo: str = ""
