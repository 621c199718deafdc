"""Three classes that both the losses and the task are tested with."""

import numpy as np

TORCH = np.array([[2.0, -1.0, 0.5], [0.0, 0.0, 0.0], [-3.0, 4.0, 3.0]], np.float32)
WEIGHTS = (0.5, 2.0, 3.0)
MULTI = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]], np.int32)
