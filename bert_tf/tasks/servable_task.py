"""A task that can be served: texts to the inputs of its model, and outputs to predictions."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import keras
import tensorflow as tf

from bert_tf.tasks.trainable_task import BaseTask, Outputs, Tensors


class ServableTask(BaseTask, Protocol):
    """A task that `export/` can turn into signatures.

    Attributes:
        name: name of the task.
        example_method: name of the signature that takes tf.Examples, "classify" or "regress". If None, there is none.
        labels: names of the outputs, in the order of their ids. If None, they have no names.
        list_inputs: names of the text inputs of which an example has several, strings [n, k] instead of [n].
        reads_whole_texts: whether a long text is read in windows, instead of being truncated to one sequence.
        takes_pairs: whether an example may be a pair of texts instead of one.
        has_several_labels: whether any number of the labels may be predicted for an example.
        sequences_of_text: number of sequences in which a text is read, and tokens that are added to each, for estimates
            of the cost of a request. Windows of a long text do not count.
        metrics_note: a sentence for the model card on what the metrics mean, if their names do not show it.
    """

    name: ClassVar[str]
    example_method: str | None
    labels: list[str] | None = None
    list_inputs: tuple[str, ...] = ()
    reads_whole_texts: bool = True
    takes_pairs: bool = False
    has_several_labels: bool = False
    sequences_of_text: tuple[int, int] = (1, 0)
    metrics_note: str = ""

    def for_serving(self, model: keras.Model) -> keras.Model:
        """Returns the served part of a model from `build_model`: by default, all of it."""
        return model

    def card_limitations(self, max_seq_length: int) -> list[str]:
        """Returns the limitations of the served model for its model card, one sentence each."""
        return [
            f"Only the first {max_seq_length} tokens of an example, including special tokens, are read."
        ]

    def card_facts(self) -> dict[str, str]:
        """Returns the model card's facts about the served model, {name: text}, in place of options of these names."""
        return {}

    @abc.abstractmethod
    def preprocess(self, tokenizer: Any, texts: Sequence[tf.Tensor], max_seq_length: int) -> tuple[Tensors, Any]:
        """Converts texts to the model's inputs, in the graph.

        Args:
            tokenizer: a `BaseTokenizer`, or anything with its interface.
            texts: tensors of strings [n], one per text of an example; [n, k] for `list_inputs`.
            max_seq_length: maximum sequence length.

        Returns:
            {name: tensor} for `features`, and what `postprocess` needs in addition to the outputs, or None.
        """

    @abc.abstractmethod
    def postprocess(self, outputs: Outputs, origin: Any = None) -> Tensors:
        """Converts outputs to the served predictions: {name: tensor [n, ...]}.

        Args:
            outputs: the model's outputs for the features of `preprocess`, or for features sent by the client.
            origin: the second result of `preprocess`; None for features sent by the client.
        """

    def postprocess_numbers(self, outputs: Outputs) -> Tensors:
        """Converts outputs for features sent by the client to predictions without strings, for runtimes without them.

        By default, these are the predictions of `postprocess` that are numbers.
        """
        served = self.postprocess(outputs)
        return {name: values for name, values in served.items() if values.dtype != tf.string}

    @abc.abstractmethod
    def example_answer(self, outputs: Outputs, origin: Any = None) -> Tensors:
        """Returns the response of `example_method`: `scores` and `classes` [n, L], or `outputs` [n, 1]."""
