"""A stand-in for the module ``pbs`` that PBS gives to its hooks: of the documented interface, what a hook may use."""

from __future__ import annotations

import re
from typing import Any

LOG_ERROR, LOG_WARNING, LOG_DEBUG = 1, 2, 4
logged: list[tuple[int, str]] = []
current: Any = None


class _Checked:
    """A value of one of PBS's types, which refuses other texts as PBS does."""

    form = ""

    def __init__(self, text: str) -> None:
        if not re.fullmatch(self.form, text):
            raise ValueError(f"invalid value: {text}")
        self.text = text

    def __str__(self) -> str:
        return self.text


class size(_Checked):  # noqa: N801 - PBS names it so
    form = "[0-9]+([kmgtp]?[bw])?"


class duration(_Checked):  # noqa: N801
    form = "([0-9]+:){0,2}[0-9]+"


class select(_Checked):  # noqa: N801
    form = r"[0-9]*:?[a-z]+=[^:=+]+([:+][0-9]*:?[a-z]+=[^:=+]+)*"


class Resources(dict[str, Any]):
    """``Resource_List``: None where a resource is not requested; only values of PBS's types may be set."""

    TYPES = {"select": select, "mem": size, "pmem": size, "walltime": duration}  # noqa: RUF012

    def __missing__(self, name: str) -> None:
        return None

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(value, self.TYPES[name]):
            raise TypeError(f"{name} takes {self.TYPES[name]}")
        super().__setitem__(name, value)


class Job:
    """The job that is queued. What is set is kept in ``changed``."""

    def __init__(self, **given: Any) -> None:
        resources = Resources()
        for name, text in given.pop("resources", {}).items():
            dict.__setitem__(resources, name, Resources.TYPES.get(name, str)(text))
        values = (
            {"Job_Name": "cfd.sh", "queue": "batch", "Account_Name": None, "comment": None}
            | {"Variable_List": None, "Output_Path": None}
            | given
        )
        self.__dict__.update(values, Resource_List=resources, changed=[])

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "comment":
            raise AttributeError(name)
        self.changed.append(name)
        self.__dict__[name] = value


class Event:
    """The event queuejob."""

    def __init__(self, job: Job, requestor: str = "ada") -> None:
        self.job, self.requestor = job, requestor

    def accept(self) -> None:
        raise SystemExit(0)

    def reject(self, message: str = "") -> None:
        raise AssertionError(f"the hook rejects the job: {message}")


def event() -> Any:
    return current


def logmsg(level: int, message: str) -> None:
    logged.append((level, message))
