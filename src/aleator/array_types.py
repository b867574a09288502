"""Names for the kinds of arrays that functions take and return."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
AnyFloats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]
Rows = NDArray[np.int64]  # indices of rows
Booleans = NDArray[np.bool_]
