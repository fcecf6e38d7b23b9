"""A short benchmark at the agent's start: floating-point operations a second of one processor, as Python does them."""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import mul

_PAIRS = 2000
_MOST_S = 0.03


def benchmark_flops(clock: Callable[[], float] = time.perf_counter, most_s: float = _MOST_S) -> float:
    """Multiplications and additions a second in the fastest of several dot products, for at most ``most_s``.

    Every product is a Python object, so the figure is some hundredth of what the processor can do. Machines are
    compared by it, all measured the same way; the fastest product is the one that nothing else disturbed.
    """
    left = [1.0 + i / _PAIRS for i in range(_PAIRS)]
    right = [2.0 - i / _PAIRS for i in range(_PAIRS)]
    begun = clock()
    fastest_s = float("inf")
    while True:
        before = clock()
        sum(map(mul, left, right))
        after = clock()
        if after > before:
            fastest_s = min(fastest_s, after - before)
        if after - begun >= most_s or after < begun:
            return 2 * _PAIRS / fastest_s
