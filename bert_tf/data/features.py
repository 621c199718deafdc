"""The schema: every tensor that passes from disk to model, under google-research/bert's name, declared once."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Feature:
    """One named tensor of a batch.

    Attributes:
        name: the same in the record, the batch, the Keras input, the signature and the request.
        dtype: "int32" or "float32", in the batch.
        per_token: shape [B, S] where true, else [B].
        padding: what fills a row after its last token.
    """

    name: str
    dtype: str = "int32"
    per_token: bool = True
    padding: int = 0


FEATURES = {
    f.name: f
    for f in (
        Feature("input_ids"),  # word pieces, [CLS] first, [SEP] after each text
        Feature("input_mask"),  # 1 for a token, 0 for padding
        Feature("segment_ids"),  # 0 for the first text with its [CLS] and [SEP], 1 for the second
        Feature("sentence_ids"),  # packed rows only: 1, 2, ... for each sentence of the row, 0 for padding
        Feature("label_ids", per_token=False),  # index into the sorted labels
        Feature("label_values", dtype="float32", per_token=False),  # the number that regression aims at
        Feature("is_real_example", dtype="float32", per_token=False),  # 0 for rows that only fill up a batch
    )
}

ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")


def keras_inputs(names=ENCODER_INPUTS):
    """Returns {name: keras.Input} of unknown batch size and length, for a functional model."""
    import keras

    return {n: keras.Input((None,) if FEATURES[n].per_token else (), dtype=FEATURES[n].dtype, name=n) for n in names}


def fake_batch(names, batch_size=4, seq_length=16, vocab_size=100, num_labels=2, seed=0):
    """Returns a valid random batch {name: np.ndarray} for tests and dry runs: each row half to wholly filled."""
    import numpy as np

    rng = np.random.default_rng(seed)
    lengths = rng.integers((seq_length + 1) // 2, seq_length + 1, batch_size)
    mask = np.arange(seq_length) < lengths[:, None]
    values = {
        "input_ids": rng.integers(0, vocab_size, mask.shape) * mask,
        "input_mask": mask,
        "segment_ids": (np.arange(seq_length) >= lengths[:, None] // 2) * mask,
        "sentence_ids": (1 + (np.arange(seq_length) >= lengths[:, None] // 2)) * mask,
        "label_ids": rng.integers(0, num_labels, batch_size),
        "label_values": rng.normal(size=batch_size),
        "is_real_example": np.ones(batch_size),
    }
    return {n: np.asarray(values[n]).astype(FEATURES[n].dtype) for n in names}
