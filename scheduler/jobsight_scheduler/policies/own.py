"""Custom policies, wrapped to report impossible decisions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any

from jobsight_scheduler.policies.base import NEVER, JobRequests, Policy, PolicyError
from jobsight_scheduler.policies.chosen import PolicyEntry

IDLE_WAKES = 1_000_000
"""Wakes in a row without a start after which a policy counts as stuck."""


class GuardedPolicy(Policy):
    """Passes every call on to the policy from ``make``, and checks its decisions: waiting jobs, each once, that fit
    into the free processors; a future time to wake.

    A job whose requested time has run out counts as ended, as in built-in policies.

    Raises:
        PolicyError: (from every call) an impossible decision, or an error of the policy itself.
    """

    def __init__(self, requests: JobRequests, make: Callable[[], Any], label: str) -> None:
        super().__init__(requests)
        self.label = label
        self.free = self.capacity
        self.waiting: set[int] = set()
        self.expires: dict[int, float] = {}  # running job -> end of its requested time
        self.idle_wakes = 0
        self.policy = self._own("its constructor", make)
        self._read_wake(0.0)

    def submitted(self, now: float, job: int) -> Sequence[int]:
        self.idle_wakes = 0
        self.waiting.add(job)
        return self._decided(now, f"submitted({now:g}, {job})", lambda: self.policy.submitted(now, job))

    def ended(self, now: float, job: int) -> Sequence[int]:
        self.idle_wakes = 0
        del self.expires[job]
        self.free += self.processors[job]
        return self._decided(now, f"ended({now:g}, {job})", lambda: self.policy.ended(now, job))

    def woken(self, now: float) -> Sequence[int]:
        if isinstance(self.policy, Policy):
            self.policy.ending = self.ending
        begun = self._decided(now, f"woken({now:g})", lambda: self.policy.woken(now))
        self.idle_wakes = 0 if begun else self.idle_wakes + 1
        if self.idle_wakes > IDLE_WAKES:
            raise PolicyError(f"{self.label}: woken {IDLE_WAKES:,} times in a row and started nothing")
        if self.wake_s <= now:
            raise PolicyError(f"{self.label}: wake_s is still {self.wake_s:g} after woken({now:g}): set a later time")
        return begun

    def _decided(self, now: float, call: str, decide: Callable[[], Any]) -> list[int]:
        decided = self._own(call, decide)
        if not isinstance(decided, Iterable):
            raise PolicyError(f"{self.label}: {call} returned {decided!r}: return a list of the jobs that start")
        begun: list[int] = []
        for job in decided:
            if not isinstance(job, Integral):
                raise PolicyError(f"{self.label}: {call} returned {job!r} among the jobs: give their indices")
            self._begin(now, call, int(job))
            begun.append(int(job))
        self._read_wake(now)
        return begun

    def _begin(self, now: float, call: str, job: int) -> None:
        last = len(self.processors)
        if job not in self.waiting:
            known = "runs already" if job in self.expires else "does not wait" if 0 <= job < last else "does not exist"
            raise PolicyError(f"{self.label}: {call} starts job {job}, which {known}")
        need = self.processors[job]
        if need > self.free:
            expired = sum([self.processors[other] for other, end in self.expires.items() if end <= now])
            if need > self.free + expired:
                raise PolicyError(
                    f"{self.label}: {call} starts job {job} on {need} processors; {self.free + expired} are free"
                )
        self.waiting.remove(job)
        self.free -= need
        self.expires[job] = now + self.estimate_s[job]

    def _read_wake(self, now: float) -> None:
        wake = getattr(self.policy, "wake_s", NEVER)
        if not isinstance(wake, (int, float)) or not wake >= now:
            raise PolicyError(f"{self.label}: wake_s is {wake!r} at {now:g} s: set a time to come, or infinity")
        self.wake_s = wake

    def _own(self, call: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except PolicyError as error:
            raise PolicyError(f"{self.label}: {error}") from error
        except Exception as error:  # code from outside, which may raise anything
            raise PolicyError(f"{self.label}: {call} raised {type(error).__name__}: {error}") from error


CALLS = ("submitted", "ended")
"""Required methods of a policy; ``woken``, ``wake_s`` and ``rules`` are optional."""


def entry_of(own: Any, label: str) -> PolicyEntry:
    """Return the entry of the class ``own``, called ``label`` in messages.

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
    try:
        signature = inspect.signature(own)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{label}: its constructor cannot be examined ({error}); write it in Python") from error
    does_without, takes_predictor = _takes(signature, 1), _takes(signature, 2)
    if not (does_without or takes_predictor):
        raise PolicyError(
            f"{label}{signature} does not fit: its constructor takes (requests), or (requests, predictor)"
        )
    rules = getattr(own, "rules", ())
    if not isinstance(rules, tuple) or not all(map(callable, rules)):
        raise PolicyError(f"{label}: rules is {rules!r}; give a tuple of the validator's checks")

    def make(requests: JobRequests, run_times: Any = None) -> Policy:
        if run_times is None and not does_without:
            raise PolicyError(f"{label} needs a run-time predictor: give --predictor")
        arguments = (requests,) if run_times is None else (requests, run_times)
        return GuardedPolicy(requests, lambda: own(*arguments), label)

    return PolicyEntry(make, rules=rules, takes_predictor=takes_predictor, needs_questions=True)


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _kind(thing: Any) -> str:
    return "a function" if inspect.isroutine(thing) else "a module" if inspect.ismodule(thing) else repr(thing)[:60]
