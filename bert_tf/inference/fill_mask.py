"""Fill-mask: predicts the masked tokens of texts with a pretrained model; `cli/fill_mask.py` is the command."""

import functools
import os
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.checkpoints.loading import directory_of
from bert_tf.export.export_options import DEFAULT, ExportOptions
from bert_tf.export.precision import build_with_weights
from bert_tf.export.run_facts import read_run
from bert_tf.export.saved_model import export
from bert_tf.export.serving_module import ServingModule
from bert_tf.inference.masked_lm import longest_sequence, open_masked_lm, warn_of_unknown
from bert_tf.tasks.fill_mask import FillMaskTask
from bert_tf.tokenization.mask_reader import MaskReader
from bert_tf.tokenization.token_counter import TokenCounter
from bert_tf.utils import names
from bert_tf.utils.argument_texts import read_argument_texts
from bert_tf.utils.model_outputs import check_finite_outputs
from bert_tf.utils.text_inputs import text_list
from bert_tf.utils.token_counts import TokenCountLog, TokenCounts

_BATCH = 32
_REMEDY = "Use `dtype` float32, or another model."


class Filler:
    """A fill-mask model: predicts masked tokens.

        filler = Filler("uncased_L-12_H-768_A-12")
        list(filler(["The man went to the [MASK] ."]))

    Args:
        path: a Hugging Face or bert_tf directory, or a TF1 checkpoint's prefix, with a masked-LM head.
        top_k: number of predictions per mask.
        vocab_file, do_lower_case: if None, as found next to the checkpoint.
        max_seq_length: maximum sequence length, including [CLS] and [SEP]; None for the model's maximum.
        dtype: data type of weights and computation, "float32", "bfloat16" or "float16".

    Raises:
        ValueError: there is no such checkpoint, it has no masked-LM head, or its files do not match.
    """

    def __init__(self, path, top_k=5, vocab_file=None, do_lower_case=None, max_seq_length=None, dtype="float32"):
        path = resolve_model(path)
        checkpoint, description = open_masked_lm(path, vocab_file, do_lower_case)
        if description.config.is_decoder:
            raise ValueError(
                f"Fill-mask requires a masked LM, but {path} is a causal LM: it predicts the next token from those "
                "before it (is_decoder in its configuration)."
            )
        self.max_seq_length = longest_sequence(description, max_seq_length)
        self.tokenizer = description.tokenizer
        self.reader = MaskReader(self.tokenizer)
        self.token_counts = TokenCountLog(os.fspath(path), self.max_seq_length)
        self.task = FillMaskTask(description.config, self.tokenizer.written_tokens, top_k)
        self.model, report = build_with_weights(self.task, checkpoint, dtype)
        logging.info("%s", report)
        self._source = directory_of(path), checkpoint.path

    def __call__(self, texts: Sequence[str]) -> Iterator[dict]:
        """Yields the predictions for each [MASK] of each text, in order.

        Args:
            texts: each with one or more [MASK]s.

        Yields:
            "id", the text's number from 0; "text"; "mask", the [MASK]'s number in the text from 0; "token", list of k
            str; "probability", list of k floats, descending: the output names of the SavedModel.

        Raises:
            ValueError: a [MASK] is beyond max_seq_length, or probabilities are NaN.
        """
        texts = text_list(texts)
        counter = TokenCounter(self.reader)
        ids = counter.tokenize(texts)
        masks, sequences = self._count(ids), counter.pack(ids, max_seq_length=self.max_seq_length)
        counts = TokenCounts(*counter.counts().numpy())
        # Unknown tokens are warned of below, from the first one on.
        self.token_counts.add(TokenCounts(texts=counts.texts, truncated=counts.truncated))
        self._check(texts, masks, sequences["input_ids"])
        for start in range(0, len(texts), _BATCH):
            features = self.reader.pad({name: each[start : start + _BATCH] for name, each in sequences.items()})
            filled = {name: value.numpy() for name, value in self._fill(features).items()}
            check_finite_outputs(filled.values(), _REMEDY, range(start, len(texts)))
            for i, text in enumerate(texts[start : start + _BATCH]):
                for mask in range(masks[start + i]):
                    tokens = [token.decode("utf-8") for token in filled["token"][i, mask]]
                    # A float32 with its own digits, not those of a float64.
                    probabilities = [float(str(each)) for each in filled["probability"][i, mask]]
                    yield {"id": start + i, "text": text, "mask": mask, "token": tokens, "probability": probabilities}

    @functools.cached_property
    def _fill(self):
        """One graph for batches of all sizes: TensorFlow rounds differently in graphs of fixed size."""
        specs = {name: tf.TensorSpec([None, None], tf.int32) for name in self.task.features}
        return tf.function(lambda f: self.task.fill(self.model(f, training=False)), [specs], autograph=False)

    def _count(self, ids):
        """Returns the number of masks in each of the sequences, a RaggedTensor of ids."""
        return tf.reduce_sum(tf.cast(ids == self.reader.mask_id, tf.int32), axis=1).numpy()

    def _check(self, texts, masks, ids):
        """Raises ValueError if a mask is part of a word or was cut off; warns about unknown words."""
        unread = [i for i, text in enumerate(texts) if self.reader.mask in text and not masks[i]]
        if unread:
            raise ValueError(
                f"{self.reader.mask} must be a separate word, because the tokenizer's files set single_word for it. "
                f"In {len(unread)} of {len(texts)} texts, it is part of another word, first in text {unread[0] + 1}: "
                f"{texts[unread[0]][:80]!r}. Put spaces around it."
            )
        cut = np.flatnonzero(masks > self._count(ids)).tolist()
        if cut:
            last = self.max_seq_length - len(self.tokenizer.template.after)
            raise ValueError(
                f"Each {self.reader.mask} must be within the first {last} tokens of a text. One is "
                f"beyond them in {len(cut)} of {len(texts)} texts, first in text {cut[0] + 1}. Shorten the text "
                "before it."
            )
        warn_of_unknown(ids.flat_values.numpy(), len(texts), self.tokenizer)

    def served(self, options: ExportOptions = DEFAULT) -> ServingModule:
        """Returns the served model, which predicts the first [MASK] of each text; it has `options.variable_dtype`."""
        reader = MaskReader(self.tokenizer, most=1)
        return ServingModule(self.task, self.model, reader, ("text",), self.max_seq_length, reader.mask, options)

    def export(self, export_dir: str, options: ExportOptions = DEFAULT) -> str:
        """Exports the model of `served` as a SavedModel, and returns its path.

        Args:
            export_dir: the model's directory, which a server is pointed at.
            options: options of the export.

        Raises:
            ValueError: as `saved_model.export`, or the tokenizer cannot be exported.
        """
        self.tokenizer.check_exportable("An export")
        return export(self.served(options), export_dir, {"top_k": self.task.top_k}, read_run(*self._source))


def read_masked_texts(arguments: Sequence[str], input_file: str | None, mask: str = names.MASK) -> list[str]:
    """Returns the non-empty texts from the arguments, or else from the lines of `input_file` or standard input.

    Raises:
        ValueError: there are both arguments and a file, there are no texts, or one has no `mask`.
    """
    texts = read_argument_texts(arguments, input_file, f'with a mask token, such as "It is {mask} ."')
    without = [i for i, text in enumerate(texts) if mask not in text]
    if without:
        raise ValueError(
            f"Each text must contain {mask}, spelled like this. It is missing in {len(without)} of {len(texts)} "
            f"texts, first in text {without[0] + 1}: {texts[without[0]][:80]!r}."
        )
    return texts


def format_answer(answer: dict, mask: str = names.MASK) -> str:
    """Formats one prediction: the text, then one probability and token per line."""
    several = answer["text"].count(mask) > 1
    head = answer["text"] + (f"   ({mask} {answer['mask'] + 1})" if several else "")
    likeliest = zip(answer["probability"], answer["token"], strict=True)
    return "\n".join([head, *(f"  {probability:.4f}  {token}" for probability, token in likeliest)])
