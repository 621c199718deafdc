"""How a model is exported."""

import dataclasses
import os
from typing import Any

from bert_tf import names
from bert_tf.processor import has_onednn


@dataclasses.dataclass(frozen=True)
class Form:
    """What may be chosen of an export.

    Attributes:
        dtype: of weights and computation; probabilities are float32 in any case. bfloat16 halves the size. int8 is that
            of the encoder's matrix products, on processors; the rest is float32.
        export_for: one of `names.EXPORTS_FOR`; "cpu" is faster on processors.
        explanations: which of `names.EXPLANATIONS` are signatures too.

    Raises:
        ValueError: what is chosen does not go together.
    """

    dtype: str = "float32"
    export_for: str = "portable"
    explanations: tuple[str, ...] = ()

    def __post_init__(self):
        assert self.dtype in names.EXPORT_DTYPES and self.export_for in names.EXPORTS_FOR, self
        if self.dtype == "int8" and not has_onednn():
            raise ValueError(
                "`export_dtype=int8` must come with oneDNN, whose products of integers it is made of. Received "
                f"TF_ENABLE_ONEDNN_OPTS={os.environ['TF_ENABLE_ONEDNN_OPTS']} in the environment; take it out."
            )
        if self.explanations and self.dtype == "int8":
            raise ValueError(
                "`export_explanations` must come with weights that are no integers. Received `export_dtype=int8`; "
                "leave one of the two out."
            )
        if self.explanations and self.export_for == "cpu" and self.dtype == "bfloat16":
            raise ValueError(
                "`export_explanations` must come with weights that are variables. Received `export_for=cpu` and "
                "`export_dtype=bfloat16`, which make them constants; leave one of the three out."
            )

    @property
    def variable_dtype(self) -> str:
        """The dtype of the variables of the model that is exported."""
        return "float32" if self.dtype == "int8" else self.dtype

    @classmethod
    def of(cls, settings: Any) -> "Form":
        """Returns what the flags of a program say."""
        return cls(settings.export_dtype, settings.export_for, tuple(settings.get("export_explanations") or ()))


DEFAULT = Form()
