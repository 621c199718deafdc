"""What a task is. Training, evaluation, prediction and export ask the task; none of them knows a concrete one."""

from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import EncoderConfig


class Task(Protocol):
    """A model and what its outputs mean.

    Attributes:
        features: names of the model's inputs, from `data/features.py`.
        config: of the encoder, an `EncoderConfig`.
        head: patterns of the paths of its own head's variables, which need not be in the checkpoint that training
            starts from; `checkpoints/heads.py` lists the heads of all tasks.
        uses_pooler: whether the head reads the pooled first token, and not the whole row.
        metric_names: what `metrics` returns.
    """

    features: tuple[str, ...]
    config: EncoderConfig
    head: tuple[str, ...]
    uses_pooler: bool
    metric_names: tuple[str, ...]

    def build_model(self) -> keras.Model:
        """Returns a new functional model from `features` to this task's outputs."""

    def denominators(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Returns what the losses are divided by, float32 []: sums over the batch, which add up over its parts."""

    def loss(self, outputs: Any, batch: dict[str, Any], denominators: dict[str, Any]) -> Any:
        """Returns float32 []: the sum of the examples' losses over `denominators`, which may be of a greater batch."""

    def example_losses(self, outputs: Any, batch: dict[str, Any]) -> Any:
        """Returns float32 [B]: the loss of each example."""

    def read(self, tokenizer: Any, texts: Any, max_seq_length: int) -> tuple[dict[str, Any], Any]:
        """Turns texts into the model's inputs, in the graph.

        Args:
            tokenizer: a `Tokenizer`, or what has its face.
            texts: tensors of strings [n], one for each text that an example has.
            max_seq_length: longest row.

        Returns:
            {name: tensor} for `features`, and what `answer` must know besides the outputs, or None.
        """

    def answer(self, outputs: Any, origin: Any = None) -> dict[str, Any]:
        """Returns what is served for the outputs: {name: tensor [n, ...]}.

        Args:
            outputs: what the model made of `read`'s features, or of features that were sent as they are.
            origin: what `read` gave with them; None for features that were sent as they are.
        """

    @property
    def example_method(self) -> str | None:
        """Name of the signature that takes tf.Examples, "classify" or "regress"; None where there is none."""

    def example_answer(self, outputs: Any, origin: Any = None) -> dict[str, Any]:
        """Returns what `example_method` serves: `scores` and `classes` [n, L], or `outputs` [n, 1]."""

    def collected(self, outputs: Any, batch: dict[str, Any]) -> Any:
        """Returns what is kept of a batch when a file is scored or answered: a tensor [B, ...], or a dict of them.

        In the graph. Its shape behind B must not depend on the batch's width.
        """

    def metrics(self, outputs: Any, targets: dict[str, np.ndarray]) -> dict[str, float]:
        """Returns {metric: score} over a whole file of examples; `outputs` is what `collected` kept, in numpy."""


def check_first_token(config: EncoderConfig, what: str):
    """Raises ValueError where the first token, which `what` reads, sees nothing of the texts."""
    if config.is_decoder:
        raise ValueError(
            f"{what} must have an encoder that sees both sides, for it reads the first token, [CLS]. Received a "
            "left-to-right model (is_decoder in its configuration), whose first token sees only itself; name another."
        )


def read_rows(tokenizer, texts, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Returns one row for each text or pair, cut as `Tokenizer.pack` cuts; what `Task.read` is for most tasks.

    Args: as `Task.read`.

    Returns:
        what `tokenizer.pad` returns, int32 [n, S]; S is the longest row's, and 1 where there is no text at all, since a
        pooler looks for a first token.
    """
    packed = tokenizer.pack(*map(tokenizer.tokenize, texts), max_seq_length=max_seq_length)
    return {name: at_least_one(values) for name, values in tokenizer.pad(packed).items()}


def at_least_one(values: tf.Tensor) -> tf.Tensor:
    """Returns values [..., S] as they are, or with one column of zeros where S is 0."""
    missing = tf.maximum(0, 1 - tf.shape(values)[-1])
    return tf.pad(values, [[0, 0]] * (values.shape.rank - 1) + [[0, missing]])
