"""Settings of exports. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.utils import names
from bert_tf.utils.settings import option


@dataclasses.dataclass(frozen=True)
class ExportFormSettings:
    """The form of an export, as `ExportOptions` has it."""

    GROUP: ClassVar[str] = "Export"

    export_dtype: str = option(
        "float32",
        "Data type of weights and computation in the export. int8: quantized matrix products of the encoder, for "
        "CPUs. float16: for --export_for=gpu. With --export_for=litert, float16 and int8 apply to the weights.",
        choices=names.EXPORT_DTYPES,
    )
    export_for: str = option(
        "portable",
        "Hardware that the model is exported for. portable: any. cpu: faster on CPUs; in bfloat16, which gains "
        "most, the weights become constants of the graph and load more slowly. gpu: inputs are padded to a few fixed "
        "shapes, so that XLA can compile them. The others write another format instead of a SavedModel, which takes "
        "token ids. litert: a .tflite file for phones and small devices. onnx: for ONNX Runtime, with the extra onnx. "
        "openvino: for OpenVINO and its Model Server, with the extra openvino.",
        choices=names.EXPORTS_FOR,
    )
    export_threads: int = option(
        2,
        "Number of threads that compute each encoder layer; set it to the number of cores available per request.",
        low=1, high=64, requires=("export_for=cpu",),
    )


@dataclasses.dataclass(frozen=True)
class ExportSettings(ExportFormSettings):
    """The form of the export of a model that reads texts."""

    GROUP: ClassVar[str] = "Export"

    calibration_file: str | None = option(
        None,
        "Texts that calibrate static quantization, which is faster than computing the ranges for each request. One "
        "example per line, its texts separated by tabs; at most 512 are read.",
        requires=("export_dtype=int8", "export_for=cpu"),
    )
    export_explanations: Sequence[str] = option(
        [],
        "Explanations that the export offers as signatures. attention: attention weights of each token; "
        "attributions: contribution of each token to a prediction.",
        choices=names.EXPLANATIONS,
    )
