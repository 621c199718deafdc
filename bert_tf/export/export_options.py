"""The options of an export: dtype, purpose, explanations."""

import dataclasses
import os
from typing import Any

from bert_tf.utils import names
from bert_tf.utils.resources import has_onednn

_FILES = "saved_model.pb", "model.tflite"  # of a version for servers, and for LiteRT


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """The choices that an export leaves.

    Attributes:
        dtype: of weights and computation; probabilities are float32 in any case. bfloat16 halves the size. int8
            applies to the encoder's matrix products, on CPUs; the rest is float32. For LiteRT, float16 and int8 apply
            to all weights.
        export_for: one of `names.EXPORTS_FOR`; "cpu" is faster on processors, "gpu" computes in few shapes, for which
            XLA can compile programs, "litert" is a .tflite file.
        explanations: which of `names.EXPLANATIONS` are signatures too.
        threads: that compute each block side by side, with "cpu".

    Raises:
        ValueError: what is chosen does not go together.
    """

    dtype: str = "float32"
    export_for: str = "portable"
    explanations: tuple[str, ...] = ()
    threads: int = 2

    def __post_init__(self):
        assert self.dtype in names.EXPORT_DTYPES and self.export_for in names.EXPORTS_FOR, self
        assert self.threads >= 1, self
        self._check_16_bits()
        if self.dtype == "int8" and self.export_for == "gpu":
            raise ValueError(
                "`export_dtype=int8` cannot be combined with `export_for=gpu`: int8 products are for CPUs. "
                "Use bfloat16 or float16 on a GPU."
            )
        if self.has_int8_products and not has_onednn():
            raise ValueError(
                "`export_dtype=int8` requires oneDNN, which the environment turns off with "
                f"TF_ENABLE_ONEDNN_OPTS={os.environ['TF_ENABLE_ONEDNN_OPTS']}. Unset that variable."
            )
        if self.explanations and self.dtype == "int8":
            raise ValueError(
                "`export_explanations` and `export_dtype=int8` cannot be combined: explanations need floating-point "
                "weights. Remove one of the two."
            )
        if self.explanations and self.export_for == "cpu" and self.dtype == "bfloat16":
            raise ValueError(
                "`export_explanations`, `export_for=cpu` and `export_dtype=bfloat16` cannot be combined: explanations "
                "need weights that are variables, and the other two make them constants. Remove one."
            )

    def _check_16_bits(self):
        halves = {"gpu": ("bfloat16", "float16"), "litert": ("float16",)}.get(self.export_for, ("bfloat16",))
        if self.dtype in ("bfloat16", "float16") and self.dtype not in halves:
            raise ValueError(
                f"With `export_for={self.export_for}`, the `export_dtype` of 16 bits must be {halves[0]}. Received "
                f"{self.dtype}; take {halves[0]}."
            )
        if self.export_for == "litert" and self.explanations:
            raise ValueError(
                "`export_explanations` and `export_for=litert` cannot be combined: explanations require a SavedModel. "
                "Remove one of the two."
            )

    def check(self, task: Any):
        """Raises ValueError if a task cannot be exported so, as far as that is seen before there is a model.

        Args:
            task: a `FineTuned`, or one that fills in blanks.
        """
        if self.export_for != "litert":
            return
        several = task.list_inputs or getattr(task, "windows", None) is not None
        if several or getattr(task, "lstm_units", None):
            received = "whose examples have several" if several else "with a BiLSTM, whose loop LiteRT does not run"
            raise ValueError(
                "`export_for=litert` requires a model that reads an example as one sequence, with an encoder and a "
                f"head alone; this one is for {task.name}, {received}. Remove the option."
            )

    def check_folder(self, export_dir: str | os.PathLike):
        """Raises ValueError if it is already clear that the next version cannot be written below `export_dir`.

        Nobody would find a version inside another, and a server takes whatever lies next to its versions for one, too.
        """
        there = export_dir = os.path.abspath(export_dir)
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):
            why = "may not be written" if os.path.isdir(there) else "is no folder"
            raise ValueError(
                f"`export_dir` must be a folder that can be made and written. Received {export_dir}, where {there} "
                f"{why}; name another."
            )
        if file := next((file for file in _FILES if os.path.exists(os.path.join(export_dir, file))), None):
            raise ValueError(
                "`export_dir` must be a model's own folder, in which each version has a numbered one. Received "
                f"{export_dir}, which is a version itself, with a {file}; name the folder above, "
                f"{os.path.dirname(export_dir)}."
            )
        mine, other = reversed(_FILES) if self.export_for == "litert" else _FILES
        for version in os.listdir(export_dir) if os.access(export_dir, os.R_OK) else ():
            if version.isdecimal() and os.path.exists(os.path.join(export_dir, version, other)):
                raise ValueError(
                    f"`export_dir` must hold versions of one kind, a {_FILES[0]} each for servers or a {_FILES[1]} for "
                    f"LiteRT. Received {export_dir} for a {mine}, whose version {version} has a {other}; name another "
                    "folder."
                )

    @property
    def has_int8_products(self) -> bool:
        """Whether the graph multiplies integers by operations of TensorFlow."""
        return self.dtype == "int8" and self.export_for != "litert"

    @property
    def has_fast_encoder(self) -> bool:
        """Whether the encoder is that of `export/cpu`."""
        return self.export_for == "cpu" or self.has_int8_products

    @property
    def parts(self) -> int:
        """The number of threads that compute each block of the fast encoder side by side."""
        return self.threads if self.export_for == "cpu" else 1

    @property
    def takes_ranges(self) -> bool:
        """Whether products of integers may have ranges that examples show; such run on TensorFlow 2.17 and later."""
        return self.has_int8_products and self.export_for == "cpu"

    @property
    def folder(self) -> str:
        """The name of the folder for exports in that of a training."""
        return "litert" if self.export_for == "litert" else "export"

    @property
    def variable_dtype(self) -> str:
        """The dtype of the variables of the model that is exported."""
        if self.export_for == "litert":
            return "float32"
        return self.dtype if self.dtype in ("bfloat16", "float16") else "float32"


DEFAULT = ExportOptions()
