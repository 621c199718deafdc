"""Has TensorFlow use oneDNN on CPUs on which it is faster, and on which TensorFlow leaves it off by default.

On x86 without instructions for int8, TensorFlow's own kernels take a quarter longer in training, and up to twice as
long for an export. It reads the variable when it is imported. Imported by `import bert_tf`: no other imports here.
"""

import os
import sys

VARIABLE = "TF_ENABLE_ONEDNN_OPTS"  # the user's value is kept
OURS = "BERT_TF_ONEDNN"  # tells this process and its children that the value is not the user's
_CPU_INFO = "/proc/cpuinfo"


def turn_on():
    """Turns oneDNN on for x86 with AVX2 under Linux, unless the variable is set or TensorFlow is imported already."""
    if VARIABLE in os.environ or "tensorflow" in sys.modules or sys.platform != "linux":
        return
    if _has_avx2():
        os.environ[VARIABLE], os.environ[OURS] = "1", "auto"


def _has_avx2():
    try:
        with open(_CPU_INFO, encoding="utf-8", errors="replace") as file:
            return next((" avx2 " in f"{line.rstrip()} " for line in file if line.startswith("flags")), False)
    except OSError:
        return False
