"""Options of an export: dtype, target device, explanations."""

import dataclasses
import os
from typing import Any

from bert_tf.lite.litert_file import MODEL_FILE
from bert_tf.utils import names
from bert_tf.utils.extras import require_packages
from bert_tf.utils.resources import permits_int8, why_without_int8

# The file of a version that no other kind has, and whose kind that is.
FILES = {"litert": MODEL_FILE, "onnx": "model.onnx", "openvino": "model.xml"}
_SAVED_MODEL = "saved_model.pb"
_KINDS = {_SAVED_MODEL: "servers", FILES["litert"]: "LiteRT", FILES["onnx"]: "ONNX", FILES["openvino"]: "OpenVINO"}
_CONVERTERS = {"onnx": ("tf2onnx", "onnxruntime"), "openvino": ("openvino",)}  # and the runtimes, if they are others


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Options of an export.

    Attributes:
        dtype: data type of weights and computation; probabilities are float32 in any case. bfloat16 halves the size.
            int8 applies to the encoder's matrix products, on CPUs; the rest is float32. For LiteRT, float16 and int8
            apply to all weights.
        export_for: one of `names.EXPORTS_FOR`; "cpu" is faster on CPUs, "gpu" computes in few shapes, for which
            XLA can compile programs, "litert" is a .tflite file, "onnx" and "openvino" are files of those runtimes.
        explanations: names from `names.EXPLANATIONS` to export as signatures.
        threads: number of threads that compute each layer in parallel, with "cpu".

    Raises:
        ValueError: options cannot be combined.
    """

    dtype: str = "float32"
    export_for: str = "portable"
    explanations: tuple[str, ...] = ()
    threads: int = 2

    def __post_init__(self):
        assert self.dtype in names.EXPORT_DTYPES and self.export_for in names.EXPORTS_FOR, self
        assert self.threads >= 1, self
        if self.export_for in _CONVERTERS:
            self._check_conversion()
        self._check_16_bits()
        if self.dtype == "int8" and self.export_for == "gpu":
            raise ValueError(
                "`export_dtype=int8` cannot be combined with `export_for=gpu`: int8 products are for CPUs. "
                "Use bfloat16 or float16 on a GPU."
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

    def _check_conversion(self):
        if self.dtype != "float32":
            raise ValueError(
                f"With `export_for={self.export_for}`, `export_dtype` must be float32; got {self.dtype}. Use float32 "
                "and choose the precision in that runtime."
            )
        if self.explanations:
            raise ValueError(
                f"`export_explanations` and `export_for={self.export_for}` cannot be combined: explanations require a "
                "SavedModel. Remove one of the two."
            )

    def _check_16_bits(self):
        halves = {"gpu": ("bfloat16", "float16"), "litert": ("float16",)}.get(self.export_for, ("bfloat16",))
        if self.dtype in ("bfloat16", "float16") and self.dtype not in halves:
            raise ValueError(
                f"With `export_for={self.export_for}`, a 16-bit `export_dtype` must be {halves[0]}; got "
                f"{self.dtype}."
            )
        if self.export_for == "litert" and self.explanations:
            raise ValueError(
                "`export_explanations` and `export_for=litert` cannot be combined: explanations require a SavedModel. "
                "Remove one of the two."
            )

    def check(self, task: Any):
        """Raises ValueError if it is clear without a model that a task cannot be exported with these options.

        Args:
            task: a `FineTuningTask`, or a fill-mask task.
        """
        reads_masked_lm = task.name in ("fill_mask", "sparse_embedding")
        if self.has_fast_encoder and reads_masked_lm and task.config.enhanced_mask_decoder:
            raise ValueError(
                "`export_for=cpu` and `export_dtype=int8` must not be used for a model whose masked-LM head has an "
                "enhanced mask decoder (enhanced_mask_decoder in its configuration); got "
                f"`export_for={self.export_for}` and `export_dtype={self.dtype}`; use `export_for=portable` without "
                "int8."
            )
        if self.export_for == "onnx" and getattr(task, "lstm_units", None):
            raise ValueError(
                "`export_for=onnx` is not supported for a model with a BiLSTM, whose loop tf2onnx cannot convert. Use "
                "`export_for=openvino`."
            )
        if self.export_for in _CONVERTERS:
            require_packages(f"`export_for={self.export_for}`", *_CONVERTERS[self.export_for])
        if self.export_for == "litert" and (obstacle := litert_obstacle(task)):
            raise ValueError(f"`export_for=litert` is not supported for a model with {obstacle}. Remove the option.")

    def check_processor(self):
        """Raises ValueError if this machine cannot compute what the export contains, such as its sample requests."""
        if self.has_int8_products and not permits_int8():
            raise ValueError(
                f"`export_dtype=int8` requires oneDNN, {why_without_int8()}, use float32, or export on another "
                "machine."
            )

    def check_folder(self, export_dir: str | os.PathLike):
        """Raises ValueError if it is already clear that the next version cannot be written below `export_dir`.

        A version inside another one would not be found, and a server treats everything next to its versions as a
        version.
        """
        there = export_dir = os.path.abspath(export_dir)
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):
            why = "is not writable" if os.path.isdir(there) else "is not a directory"
            raise ValueError(
                f"Cannot write to `export_dir` {export_dir}: {there} {why}. Choose a writable directory."
            )
        if file := next((file for file in _KINDS if os.path.exists(os.path.join(export_dir, file))), None):
            raise ValueError(
                f"`export_dir` must be a model's directory, which contains its numbered versions. {export_dir} is "
                f"itself a version (it has a {file}). Use its parent directory, {os.path.dirname(export_dir)}."
            )
        self._check_versions(export_dir)

    def _check_versions(self, export_dir):
        mine = FILES.get(self.export_for, _SAVED_MODEL)
        for version in os.listdir(export_dir) if os.access(export_dir, os.R_OK) else ():
            there = [file for file in _KINDS if os.path.exists(os.path.join(export_dir, version, file))]
            if version.isdecimal() and there and mine not in there:
                kinds = ", ".join(f"{file} for {kind}" for file, kind in _KINDS.items())
                raise ValueError(
                    f"`export_dir` must contain versions of one kind: {kinds}. Version {version} in {export_dir} has "
                    f"{there[0]}, and this export writes {mine}. Export to a new directory."
                )

    @property
    def has_int8_products(self) -> bool:
        """Whether the graph uses TensorFlow's int8 matrix products."""
        return self.dtype == "int8" and self.export_for != "litert"

    @property
    def has_fast_encoder(self) -> bool:
        """Whether the export uses the fast encoder of `export/cpu`."""
        return self.export_for == "cpu" or self.has_int8_products

    @property
    def parts(self) -> int:
        """The number of threads that compute each layer of the fast encoder in parallel."""
        return self.threads if self.export_for == "cpu" else 1

    @property
    def takes_ranges(self) -> bool:
        """Whether int8 products may use calibrated ranges, which require TensorFlow 2.17 or later."""
        return self.has_int8_products and self.export_for == "cpu"

    @property
    def fast_path(self) -> "ExportOptions | None":
        """Options of the same model for LiteRT next to the SavedModel, which is faster for few texts; or None.

        LiteRT computes in float32 instead of bfloat16, which it lacks.
        """
        if self.export_for != "cpu":
            return None
        return ExportOptions("int8" if self.dtype == "int8" else "float32", "litert")

    @property
    def folder(self) -> str:
        """The name of the directory for exports in a training run's output directory."""
        return self.export_for if self.export_for in FILES else "export"

    @property
    def variable_dtype(self) -> str:
        """The dtype of the exported model's variables."""
        if self.export_for == "litert":
            return "float32"
        return self.dtype if self.dtype in ("bfloat16", "float16") else "float32"


def litert_obstacle(task: Any) -> str:
    """Returns what of a task's model LiteRT cannot compute; "" if it computes all of it."""
    if getattr(task, "lstm_units", None):
        return "a BiLSTM (`lstm_units`), whose loop LiteRT cannot run"
    return ""


DEFAULT = ExportOptions()
