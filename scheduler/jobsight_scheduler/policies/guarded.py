"""A policy of one's own, whose decisions are checked before they are carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any

from .base import NEVER, JobRequests, Policy, PolicyError

IDLE_WAKES = 1_000_000
"""A policy that is woken so often in a row without a start would go on for ever."""


class GuardedPolicy(Policy):
    """Passes every call on to the policy from ``make``, and checks what it decides: jobs that wait, each once, that fit
    into the free processors; a time to be woken that is still to come.

    A job whose requested time has run out counts as ended, as in the policies that ship.

    Raises:
        PolicyError: (from every call) a decision that cannot be carried out, or an error of the policy itself.
    """

    def __init__(self, requests: JobRequests, make: Callable[[], Any], label: str) -> None:
        super().__init__(requests)
        self.label = label
        self.free = self.capacity
        self.waiting: set[int] = set()
        self.expires: dict[int, float] = {}  # running job -> when its requested time runs out
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

    @property
    def keeps_state(self) -> bool:
        if isinstance(self.policy, Policy):
            return self.policy.keeps_state
        return callable(getattr(self.policy, "state", None)) and callable(getattr(self.policy, "restore", None))

    def state(self) -> dict[str, Any]:
        own = self._own("state()", self.policy.state)
        return {"waiting": sorted(self.waiting), "expires": list(self.expires.items()), "policy": own}

    def restore(self, state: dict[str, Any]) -> None:
        self.waiting, self.expires = set(state["waiting"]), dict(state["expires"])
        self.free = self.capacity - sum([self.processors[job] for job in self.expires])
        self._own("restore()", lambda: self.policy.restore(state["policy"]))
        self._read_wake(0.0)

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
