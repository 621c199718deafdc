"""How a model is exported."""

import dataclasses
from typing import Any

from bert_tf import names


@dataclasses.dataclass(frozen=True)
class Form:
    """What may be chosen of an export.

    Attributes:
        dtype: of weights and computation; probabilities are float32 in any case. bfloat16 halves the size.
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
        if self.explanations and self.export_for == "cpu" and self.dtype == "bfloat16":
            raise ValueError(
                "`export_explanations` must come with weights that are variables. Received `export_for=cpu` and "
                "`export_dtype=bfloat16`, which make them constants; leave one of the three out."
            )

    @classmethod
    def of(cls, settings: Any) -> "Form":
        """Returns what the flags of a program say."""
        return cls(settings.export_dtype, settings.export_for, tuple(settings.export_explanations))


DEFAULT = Form()
