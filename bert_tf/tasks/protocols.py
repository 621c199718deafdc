"""What can be trained, and what can be served: the parts of a task that each can stand alone."""

import abc
import types
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.dataset import Tokenized
from bert_tf.data.windowed import Windowed
from bert_tf.models.config import EncoderConfig

Tensors = Mapping[str, tf.Tensor]
Outputs = tf.Tensor | Tensors  # of a model: one tensor, or several by name
Collected = np.ndarray | Mapping[str, np.ndarray]  # the same of a whole file, [n, ...]
Rows = Tokenized | Windowed


class Model(Protocol):
    """What every task has.

    Attributes:
        config: of the encoder.
        features: names of the model's inputs, from `data/features.py`.
        head: patterns of the paths of the task's own head; `checkpoints/heads.py` knows all others.
        uses_pooler: whether the encoder's pooler is used.
    """

    config: EncoderConfig
    features: tuple[str, ...]
    head: tuple[str, ...]
    uses_pooler: bool

    @abc.abstractmethod
    def build_model(self) -> keras.Model:
        """Returns a new functional model from `features` to this task's outputs."""


class Trainable(Model, Protocol):
    """A task that `training/` can train and score.

    Attributes:
        targets: names of the features that the loss compares the outputs with.
        metric_names: what `metrics` returns.
        loss_weights: of the parts that the loss is the sum of, by the names that such figures have among the scores:
            "masked_lm_loss"; empty: it has no parts.
    """

    targets: tuple[str, ...]
    metric_names: tuple[str, ...]
    loss_weights: Mapping[str, float] = types.MappingProxyType({})

    @abc.abstractmethod
    def denominators(self, batch: Tensors) -> Tensors:
        """Returns what the losses are divided by, float32 []: sums over the batch, which add up over its parts."""

    def loss_parts(self, outputs: Outputs, batch: Tensors, denominators: Tensors) -> Tensors:
        """Returns {part: float32 []} for the names in `loss_weights`, not yet weighed; in all else as `loss`."""
        raise AssertionError("a task must have `loss_weights` and `loss_parts`, or a `loss` of its own")

    def loss(self, outputs: Outputs, batch: Tensors, denominators: Tensors) -> tf.Tensor:
        """Returns float32 []: the sum of the examples' losses over `denominators`, which may be of a larger batch.

        Here the sum of the parts by their weights. A training step makes that sum itself, to have the parts too.
        """
        parts = self.loss_parts(outputs, batch, denominators)
        return tf.add_n([weight * parts[name] for name, weight in self.loss_weights.items()])

    @abc.abstractmethod
    def example_losses(self, outputs: Outputs, batch: Tensors) -> tuple[tf.Tensor, tf.Tensor] | None:
        """Returns each example's loss and its weight in the mean over examples, float32 [B] each; or None."""

    @abc.abstractmethod
    def collected(self, outputs: Outputs, batch: Tensors) -> Outputs:
        """Returns what is kept of a batch when a file is scored or answered: a tensor [B, ...], or a dict of them.

        In the graph. Where batches differ in shape after B, the narrower ones are padded with 0.
        """

    @abc.abstractmethod
    def metrics(self, outputs: Collected, rows: Rows | None) -> dict[str, float]:
        """Returns {metric: score} over a whole file of examples; `outputs` is what `collected` kept, in numpy."""


class Served(Model, Protocol):
    """A task that `export/` can turn into signatures.

    Attributes:
        name: of the task.
        example_method: name of the signature that takes tf.Examples, "classify" or "regress"; None: there is none.
        labels: names of the outputs, in the order of their ids; None: they have none.
        list_inputs: names of the text inputs of which an example has several, strings [n, k] instead of [n].
    """

    name: str
    example_method: str | None
    labels: list[str] | None = None
    list_inputs: tuple[str, ...] = ()

    @property
    def reads_whole_texts(self) -> bool:
        """Whether a long text is read through windows, and not only as far as one sequence goes."""
        return True

    def for_serving(self, model: keras.Model) -> keras.Model:
        """Returns what is served of a model that `build_model` returned: here, all of it."""
        return model

    def limits(self, max_seq_length: int) -> list[str]:
        """Returns what the served model does not do though one might expect it, a sentence each, for its model card."""
        return [
            f"What lies beyond {max_seq_length} word pieces of an example, special ones included, is cut off and not "
            "read."
        ]

    @abc.abstractmethod
    def read(self, tokenizer: Any, texts: Sequence[tf.Tensor], max_seq_length: int) -> tuple[Tensors, Any]:
        """Turns texts into the model's inputs, in the graph.

        Args:
            tokenizer: a `Tokenizer`, or anything with its interface.
            texts: tensors of strings [n], one for each text that an example has; [n, k] for `list_inputs`.
            max_seq_length: longest row.

        Returns:
            {name: tensor} for `features`, and what `answer` needs besides the outputs, or None.
        """

    @abc.abstractmethod
    def answer(self, outputs: Outputs, origin: Any = None) -> Tensors:
        """Returns what is served for the outputs: {name: tensor [n, ...]}.

        Args:
            outputs: what the model made of `read`'s features, or of features that were sent as they are.
            origin: what `read` gave with them; None for features that were sent as they are.
        """

    @abc.abstractmethod
    def example_answer(self, outputs: Outputs, origin: Any = None) -> Tensors:
        """Returns what `example_method` serves: `scores` and `classes` [n, L], or `outputs` [n, 1]."""
