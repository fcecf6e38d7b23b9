"""Kinds of arrays. Their shapes are in letters: D dependencies, R resources of a type, K kinds of capacity."""

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
