"""The log of a program opens with its own first line: what TensorFlow says of itself at its start is left out.

TensorFlow's C++ writes to the process's standard error before it knows how much it is to say. Until it is imported,
that stream goes through a small process which lets everything pass but the lines known here; being a process of its
own, it has the last words of one that dies in the import too.
"""

import contextlib
import glob
import os
import re
import signal
import sys
from collections.abc import Iterator

from bert_tf.utils.imports import AroundImport

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # TensorFlow's own: 0 everything, 1 no information, 2 no warnings, 3 no errors
_SEVERITIES = b"IWE"
_STAMPED = re.compile(rb"([IWEF])\d{4} [\d:.]+ +\d+ [\w./-]+:\d+\] (.*)")
_BEFORE_THE_LOG = b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
_INSTRUCTIONS = b"To enable the following instructions: "  # the second line of a piece of information
# Logged as errors, and none: the second is said on machines with AVX-512 too, and nothing of ours multiplies integers.
_NO_GPU = b"failed call to cuInit: "
_NO_INTEGERS = b"oneDNN supports DT_INT64 only on platforms with AVX-512."
_GPUS = ("/dev/nvidia[0-9]*", "/dev/dxg", "/proc/driver/nvidia")
_END = b"\0"


@contextlib.contextmanager
def filter_greetings(warm_up: bool = False) -> Iterator[None]:
    """Leaves TensorFlow's greetings out where it is imported in the block, unless TF_CPP_MIN_LOG_LEVEL is set to 0.

    Args:
        warm_up: let TensorFlow find its devices, and make its first step, as a part of the import: it greets then too.
    """
    level = os.environ.setdefault(_LEVEL, "2")
    level = int(level) if level.isascii() and level.isdigit() else 0
    if not level or "tensorflow" in sys.modules:
        yield
        return

    def around(module, execute):
        with _filtered(level):
            execute(module)
            if warm_up:
                with module.device("CPU:0"):
                    module.transpose(module.zeros([1, 2], module.int64))

    finder = AroundImport("tensorflow", around)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def is_greeting(line: bytes, level: int, has_gpu: bool) -> bool:
    """Says whether a line of TensorFlow's is none that anybody needs.

    Args:
        line: without its end.
        level: the least severity that is to be shown, as TF_CPP_MIN_LOG_LEVEL counts.
        has_gpu: there is a GPU, of which it matters that it cannot be used.
    """
    if line == _BEFORE_THE_LOG or line.startswith(_INSTRUCTIONS):
        return True
    if not (stamped := _STAMPED.match(line)):
        return False
    severity, message = stamped.groups()
    if severity in _SEVERITIES and _SEVERITIES.index(severity) < level:  # what it leaves out itself, once it knows
        return True
    return message.startswith(_NO_INTEGERS) or message.startswith(_NO_GPU) and not has_gpu


@contextlib.contextmanager
def _filtered(level):
    """Inside, what anything in this process writes to file descriptor 2 arrives without greetings."""
    kept = reading = writing = None
    try:
        kept, (reading, writing) = os.dup(2), os.pipe()
        child = os.fork()
    except OSError:  # there is no standard error, or no place for a process: then it says what it says
        for descriptor in (kept, reading, writing):
            if descriptor is not None:
                os.close(descriptor)
        yield
        return
    if not child:
        try:
            os.close(writing)
            _pass_on(reading, kept, level)
        finally:
            os._exit(0)
    os.close(reading)
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    finally:
        with contextlib.suppress(BrokenPipeError):  # nobody listens any more
            os.write(2, _END)  # closing it would not do, for a process that was started inside may have it still
        os.dup2(kept, 2)
        os.close(kept)
        os.waitpid(child, 0)


def _pass_on(source, target, level):
    """What the small process does: passes on what comes from one descriptor to the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that it listens to
    has_gpu = any(map(glob.glob, _GPUS))
    rest, more = b"", b" "
    while more and _END not in rest:
        more = os.read(source, 65536)
        *lines, rest = (rest + more).split(b"\n")
        for line in lines:
            if not is_greeting(line, level, has_gpu):
                os.write(target, line + b"\n")
    os.write(target, rest.replace(_END, b""))
