"""The weighted quantile of recent values, each with less weight than the one after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Self

from .base import LARGEST, Forecaster, refusal


class Quantile(Forecaster):
    """The least value at or below which ``quantile`` of the weight lies; the value of age i weighs ``(1 - alpha)^i``.

    Looks at the last ``memory`` values, beyond which the weights are too small to matter.
    """

    __slots__ = ("_alpha", "_quantile", "_values", "_weights")

    def __init__(self, quantile: float = 0.5, alpha: float = 0.1, memory: int = 64) -> None:
        if not 0.0 < quantile < 1.0 or not 0.0 < alpha < 1.0 or memory < 1:
            raise ValueError(
                f"quantile is {quantile}, alpha {alpha}, memory {memory}: the first two lie between 0 and 1, "
                "and at least 1 value must be remembered"
            )
        self._quantile = quantile
        self._alpha = alpha
        self._values: deque[float] = deque(maxlen=memory)
        self._weights = [(1.0 - alpha) ** age for age in range(memory)]

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        self._values.appendleft(value)

    def forecast(self) -> float | None:
        values = self._values
        if not values:
            return None
        pairs = sorted(zip(values, self._weights, strict=False))
        # Rounding must not carry the goal past the last of the weights.
        goal = self._quantile * sum(weight for _, weight in pairs) * (1.0 - 1e-12)
        for value, weight in pairs:
            goal -= weight
            if goal <= 0.0:
                return value
        return pairs[-1][0]

    def state(self) -> dict[str, Any]:
        return {
            "quantile": self._quantile,
            "alpha": self._alpha,
            "memory": self._values.maxlen,
            "values": list(self._values),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        restored = cls(float(state["quantile"]), float(state["alpha"]), int(state["memory"]))
        restored._values.extend(state["values"])
        return restored

    def fresh(self) -> Self:
        return type(self)(self._quantile, self._alpha, self._values.maxlen or 1)
