"""Has TensorFlow use oneDNN on CPUs on which it is faster, and on which TensorFlow leaves it off by default.

On an x86 CPU without instructions for int8, training is 1.3 times as fast with oneDNN as with TensorFlow's own kernels,
and an export 1.2 to 1.9 times. TensorFlow reads the variable when it is imported. `import bert_tf` imports this module:
no other imports here.
"""

import os
import sys

VARIABLE = "TF_ENABLE_ONEDNN_OPTS"  # the user's value is kept
OURS = "true"  # as good as "1" for TensorFlow, and what users do not write
CPU_INFO = "/proc/cpuinfo"


def turn_on():
    """Turns oneDNN on for x86 with AVX2 under Linux, unless the variable is set or TensorFlow is imported already."""
    if VARIABLE in os.environ or "tensorflow" in sys.modules or sys.platform != "linux":
        return
    if _has_avx2():
        os.environ[VARIABLE] = OURS


def _has_avx2():
    try:
        with open(CPU_INFO, encoding="utf-8", errors="replace") as file:
            return next((" avx2 " in f"{line.rstrip()} " for line in file if line.startswith("flags")), False)
    except OSError:
        return False
