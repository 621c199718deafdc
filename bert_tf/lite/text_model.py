"""A .tflite model that is asked with texts, without TensorFlow."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.lite.entities import find_entities
from bert_tf.lite.litert_file import LitertFile
from bert_tf.lite.packing import Packer
from bert_tf.lite.reading import Reading
from bert_tf.lite.single_sequences import answer_texts, embed_texts
from bert_tf.lite.spans import answer_questions
from bert_tf.lite.text_lists import choose, rank
from bert_tf.tokenization.fast_tokenizer import load_fast_tokenizer
from bert_tf.utils.litert_runner import LitertRunner
from bert_tf.utils.litert_trial import check_litert
from bert_tf.utils.token_counts import TokenCounts

# task -> what answers its examples: (Reading, options of the task, texts of each input) -> {output: array [n, ...]}
ANSWERS = {
    "classification": answer_texts,
    "embedding": embed_texts,
    "multiple_choice": choose,
    "question_answering": answer_questions,
    "reranking": rank,
    "tagging": find_entities,
}
_READ_IN_WINDOWS = ("question_answering", "tagging")  # and classifiers of which an option says so
LISTS = {"multiple_choice": 1, "reranking": 1}  # task -> the index of the input of which an example has several


class LitertTextModel:
    """Computes the outputs of an exported model's text signature from a .tflite file.

    It may be used by several threads, each with an interpreter of its own from `make_runner`.

    Args:
        path: path of the file.

    Attributes:
        task: the name of its task, and its options.
        inputs: names of the texts of an example.
        reads_whole_texts: whether a long text is read in windows, instead of being truncated to one sequence.
        list_input: the one of which an example has several. If None, there is none.
        tokenizer: its `FastTokenizer`.
        lengths: longest sequences of its graphs, in ascending order.
        takes_any_length: as of `LitertRunner`.

    Raises:
        ValueError: bert_tf did not export the file, it is damaged, or its task is not one of `ANSWERS`.
        OSError: the file cannot be read, or it could not be tried first.
    """

    def __init__(self, path: str | os.PathLike):
        self._file = LitertFile(path)
        check_litert(self._file.data)
        self.task: dict[str, Any] = self._file.task
        name = self.task["task"]
        if name not in ANSWERS:
            raise ValueError(
                f"{self._file.path} is a model for {name}, which does not take texts; models for "
                f"{', '.join(sorted(ANSWERS))} do. Pass it token ids, as in docs/guides/litert.md."
            )
        with tempfile.TemporaryDirectory() as folder:
            self._file.unpack(folder)
            self.tokenizer = load_fast_tokenizer(folder)
        self.inputs = tuple(self.task["text_inputs"])
        self.list_input = self.inputs[LISTS[name]] if name in LISTS else None
        self.reads_whole_texts = name in _READ_IN_WINDOWS or bool(self.task.get("windows"))
        self._packer = Packer(self.tokenizer.tables, self.task["max_seq_length"])
        runner = self.make_runner(1)
        self.lengths, self.takes_any_length = runner.lengths, runner.takes_any_length

    def most_tokens(self, texts: Sequence[str]) -> int:
        """Returns the number of tokens of the longest of some texts, with the special tokens of a sequence."""
        longest = max(len(self.tokenizer.tokenize(text)) for text in texts)
        return longest + self.tokenizer.tables.template.special(1)

    def make_runner(self, threads: int) -> LitertRunner:
        """Returns an interpreter for one of the caller's threads; it computes with this number of threads itself."""
        return LitertRunner(self._file.data, threads)

    def answer(
        self, runner: LitertRunner, texts: Mapping[str, Sequence[Any]]
    ) -> tuple[dict[str, np.ndarray], TokenCounts]:
        """Returns the outputs for n examples, {name: array [n, ...]}, and what was not read of their texts.

        Args:
            runner: from `make_runner`; not in use by another thread.
            texts: {input: n str}, or n lists of str for `list_input`; n is at least 1.

        Raises:
            TooLongError: a text has more tokens than the longest graph.
        """
        names = runner.inputs

        def compute(features):
            return runner({name: features[name] for name in names})

        read_tokens = None if self.reads_whole_texts else self.task["max_seq_length"]
        reading = Reading(self.tokenizer, self._packer, compute, self.lengths[-1], read_tokens)
        outputs = ANSWERS[self.task["task"]](reading, self.task, tuple(texts[name] for name in self.inputs))
        return outputs, reading.counts


def decode_texts(values: Sequence[Any]) -> list[Any]:
    """Returns texts, or lists of them, as str: without the bytes that are not UTF-8, which the graphs drop, too.

    Args:
        values: bytes, or lists of bytes.
    """
    return [decode_texts(each) if isinstance(each, list) else each.decode("utf-8", "ignore") for each in values]
