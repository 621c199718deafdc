"""The schema of features: all tensors from files to the model, with google-research/bert's names."""

import dataclasses
from collections.abc import Iterable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Feature:
    """A named tensor of a batch.

    Attributes:
        name: the same in the record, the batch, the Keras input, the signature and the request.
        dtype: dtype in the batch, "int32" or "float32".
        per: the unit that has one value, which determines the shape: "token" [B, S], "document" [B, N],
            "prediction" [B, M], "sentence" [B, K] or "example" [B].
        padding: padding value. If None, the vocabulary's [PAD].
    """

    name: str
    dtype: str = "int32"
    per: str = "token"
    padding: int | None = 0

    def padding_of(self, pad_id: int) -> int:
        """Returns the padding value, given the id of [PAD]."""
        return pad_id if self.padding is None else self.padding


FEATURES = {
    f.name: f
    for f in (
        Feature("input_ids", padding=None),  # tokens, [CLS] first, [SEP] after each text
        Feature("input_mask"),  # 1 for a token, 0 for padding
        Feature("segment_ids"),  # 0 for the first text with its [CLS] and [SEP]; the second's as its family has it: 1
        Feature("context_mask"),  # question answering's, no input of the model: 1 for a token of the context
        Feature("sentence_ids"),  # packed rows only: 1, 2, ... for each sentence of the row, 0 for padding
        Feature("masked_lm_positions", per="prediction"),  # ascending positions of the tokens to predict; 0 for padding
        Feature("masked_lm_ids", per="prediction"),  # the original tokens; 0 for padding
        Feature("masked_lm_weights", dtype="float32", per="prediction"),  # 1 for a prediction, 0 for padding
        Feature("unmasked_ids", padding=None),  # replaced tokens: the original input_ids, before masking
        Feature("sampling_draws", dtype="float32", per="prediction"),  # replaced tokens: from 0 to 1, which one it is
        Feature("next_sentence_labels", per="sentence"),  # 1 for a random or swapped second text, 0 for the true next
        Feature("next_sentence_positions", per="sentence"),  # packed rows only: the position of each example's [CLS]
        Feature("next_sentence_weights", dtype="float32", per="sentence"),  # packed rows only: 0 if there is no example
        Feature("label_ids", per="example"),  # index into the sorted labels
        Feature("tag_ids", padding=-1),  # index into the tags on a word's first token, -1 on all other tokens
        Feature("label_values", dtype="float32", per="example"),  # the target value of regression
        Feature("relevances", dtype="float32", per="document"),  # of a query's documents; 0: not relevant
        Feature("start_positions", per="example"),  # of the answer's first token; 0: not in this sequence
        Feature("end_positions", per="example"),  # of its last token
        Feature("is_real_example", dtype="float32", per="example"),  # 0 for padding rows
        Feature("sample_weights", dtype="float32", per="example"),  # scikit-learn's only: of the example in the loss
    )
}

ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")


def keras_inputs(names: Iterable[str] = ENCODER_INPUTS, windows: bool = False) -> dict[str, Any]:
    """Returns {name: keras.Input} of unknown batch size and length, for a functional model.

    With `windows`, an example has several rows: features of tokens are [B, N, S], for any number N of windows.
    """
    import keras

    shapes = {n: () if FEATURES[n].per == "example" else (None,) * (1 + windows) for n in names}
    return {n: keras.Input(shapes[n], dtype=FEATURES[n].dtype, name=n) for n in names}
