"""Predictions for texts with a .tflite file, without TensorFlow."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from bert_tf.lite.fast_path import find_file
from bert_tf.lite.text_model import LitertTextModel
from bert_tf.utils.answers import split_answer
from bert_tf.utils.files import path_text
from bert_tf.utils.loaded_by_path import LoadedByPath
from bert_tf.utils.resources import cores
from bert_tf.utils.token_counts import TokenCountLog


class LitePredictor(LoadedByPath):
    """Predicts with a model exported for LiteRT: labels, entities, answers, choices, rankings, embeddings.

        predictor = bert_tf.lite.Predictor("reviews_litert")
        predictor("A warm, funny film.")        # {"label": "positive", "probabilities": {"negative": 0.02, ...}}
        predictor(["A joy.", "Dull."])          # a list of two

    The predictions are those of `bert_tf.Predictor` and of the server. It needs the packages ai-edge-litert, numpy and
    absl-py, and no TensorFlow. Only one thread at a time may call it.

    Args:
        path: a model.tflite of `export_for=litert`, its version, or the directory of the versions, of which the newest
            is used; or an export for CPUs in int8, which has such a file, too.
        threads: number of threads; None for the number of cores.

    Attributes:
        inputs: names of an example's texts, such as ("text",) or ("question", "context").
        token_counts: truncated texts and unknown tokens so far, a `TokenCountLog`, which warns if they are many.

    Raises:
        ValueError: there is no such file, it is damaged, or it is of another program.
    """

    def __init__(self, path: str | os.PathLike, threads: int | None = None) -> None:
        file = find_file(path_text(path))
        self._model = LitertTextModel(file)
        self._runner = self._model.make_runner(threads or cores())
        self.inputs = self._model.inputs
        self.token_counts = TokenCountLog(file, self._model.task["max_seq_length"])

    def __call__(self, texts: Any) -> dict[str, Any] | list[dict[str, Any]]:
        """Predicts for one example, or for several.

        Args:
            texts: one example, or a list or other iterable of them. An example is a text; for a model with several
                inputs, a tuple of texts in the order of `inputs`, or a dictionary {input: text}. The choices of a
                multiple-choice model and the documents of a reranker are lists of texts.

        Returns:
            The prediction for one example, or a list of them in order: dictionaries {output: value}.

        Raises:
            ValueError: an example does not match the model's inputs.
        """
        self.check_process()
        if not isinstance(texts, Iterable):
            raise ValueError(f"`texts` must be a string, or a list or other iterable of texts; got {texts!r:.60}.")
        is_one = isinstance(texts, str | Mapping) or (isinstance(texts, tuple) and len(self.inputs) > 1)
        examples = [self._example(each) for each in ([texts] if is_one else texts)]
        if not examples:
            return []
        counts = None
        if name := self._model.list_input:
            counts = [len(each[name]) for each in examples]
            for each in examples:  # blank texts are passed over
                each[name] = [*each[name], *[""] * (max(counts) - len(each[name]))]
        columns = {name: [each[name] for each in examples] for name in self.inputs}
        outputs, read = self._model.answer(self._runner, columns)
        self.token_counts.add(read)
        answers = split_answer(outputs, len(examples), counts)
        return answers[0] if is_one else answers

    def _example(self, given):
        """Returns {input: text, or list of texts}."""
        if isinstance(given, Mapping):
            found = dict(given)
        else:
            values = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else ()
            found = dict(zip(self.inputs, values, strict=True)) if len(values) == len(self.inputs) else {}
        is_good = found.keys() == set(self.inputs) and all(map(self._is_good, found, found.values()))
        if not is_good:
            names = ", ".join(self.inputs)
            raise ValueError(f"`texts` must be examples with the texts {names}; got {given!r:.100}.")
        return {name: _without_surrogates(value) for name, value in found.items()}

    def _is_good(self, name, value):
        if name != self._model.list_input:
            return isinstance(value, str)
        return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, str) for each in value)


def _without_surrogates(value):
    """Returns a text, or a list of texts, without lone surrogates, which no model reads."""
    if isinstance(value, str):
        return value.encode("utf-8", "ignore").decode()
    return [_without_surrogates(each) for each in value]
