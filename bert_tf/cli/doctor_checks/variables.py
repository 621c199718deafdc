"""Environment variables that change what TensorFlow does, often set long ago and forgotten."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from bert_tf.cli.doctor_checks.findings import FAULT, NOTE, OK, WARNING, Finding


@dataclasses.dataclass(frozen=True)
class _Variable:
    """What a variable may say, and what follows.

    Attributes:
        matters: tells of a value whether it changes anything.
        state: of the finding if so.
        meaning: what it does then.
    """

    matters: Callable[[str], bool]
    state: str
    meaning: str


def _on(value):
    return value.strip().lower() in ("1", "true", "t", "yes", "y", "on")


def _off(value):
    return value.strip().lower() in ("0", "false", "f", "no", "n", "off")


def _any(value):
    return bool(value.strip())


_VARIABLES = {
    "TF_USE_LEGACY_KERAS": (
        _Variable(_on, FAULT, "tf.keras is Keras 2, which bert_tf cannot use beside Keras 3"),
    ),
    "KERAS_BACKEND": (
        _Variable(lambda value: value not in ("", "tensorflow"), FAULT, "Keras computes with another library"),
    ),
    "TF_ENABLE_ONEDNN_OPTS": (
        _Variable(_off, WARNING, "products on the CPU do without oneDNN: slower, much so in bfloat16"),
    ),
    "ONEDNN_MAX_CPU_ISA": (
        _Variable(lambda value: value.lower() not in ("", "all", "default"), WARNING,
                  "oneDNN leaves instructions of this processor unused"),
    ),
    "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": (
        _Variable(lambda value: value == "python", WARNING, "messages are read many times more slowly"),
    ),
    "CUDA_VISIBLE_DEVICES": (
        _Variable(lambda value: value in ("", "-1"), NOTE, "no GPU is used"),
        _Variable(_any, NOTE, "only these GPUs are used"),
    ),
    "XLA_FLAGS": (_Variable(_any, NOTE, "the XLA compiler is told so; an unknown flag in it ends the process"),),
    "TF_XLA_FLAGS": (_Variable(_any, NOTE, "TensorFlow tells XLA so"),),
    "NVIDIA_TF32_OVERRIDE": (_Variable(_off, NOTE, "float32 on GPUs is exact and several times slower"),),
    "TF_DETERMINISTIC_OPS": (_Variable(_on, NOTE, "operations are deterministic, and some of them slower"),),
    "TF_NUM_INTRAOP_THREADS": (_Variable(_any, NOTE, "so many threads compute one operation"),),
    "TF_NUM_INTEROP_THREADS": (_Variable(_any, NOTE, "so many operations are computed at once"),),
    "OMP_NUM_THREADS": (_Variable(_any, NOTE, "so many threads compute one operation of numpy and others"),),
    "LD_LIBRARY_PATH": (_Variable(_any, NOTE, "libraries here go before those that pip installed, CUDA's among them"),),
}  # fmt: skip


def examine(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yields a finding for each variable that changes something, or one that says there is none.

    Args:
        environment: os.environ, or what stands for it.
    """
    found = False
    for name, meanings in _VARIABLES.items():
        value = environment.get(name)
        meant = None if value is None else next((each for each in meanings if each.matters(value)), None)
        if meant:
            found = True
            remedy = f"unset {name}" if meant.state in (FAULT, WARNING) else ""
            yield Finding("environment", meant.state, f"{name}={value}: {meant.meaning}", remedy, {name: value})
    if not found:
        yield Finding("environment", OK, f"no variable changes what TensorFlow does ({len(_VARIABLES)} looked for)")
