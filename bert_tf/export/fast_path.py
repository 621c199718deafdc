"""Writes the .tflite file next to a SavedModel, and measures which of the two answers which requests faster."""

import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.export.litert import any_length, lengths, write_litert
from bert_tf.export.sample_texts import sample_texts
from bert_tf.lite.fast_path import FOLDER, INTERPRETERS, MOST_TEXTS, ONLY_SHORT, SPEED
from bert_tf.lite.litert_file import MODEL_FILE
from bert_tf.lite.text_model import LitertTextModel
from bert_tf.utils.files import write_text
from bert_tf.utils.resources import cores

_LONGEST = {"int8": 512, "float32": 64}  # tokens; the SavedModel computes longer sequences about as fast
_MOST_PACKED = 2**29  # bytes of all interpreters: each packs the weights once for each graph
_COUNTS = (1, 2, 4, 8, 16, 32)
_MOST_TOKENS = 2048  # of a request that is measured
_REPEATS = 5


def write_fast_path(directory: str, served, task_options: Mapping[str, Any], answer_texts: Callable):
    """Writes `FOLDER` of the version in `directory`.

    It has one graph for texts of any length or, if the model needs fixed lengths, one for each. In float32, it is not
    written if the SavedModel is always as fast, or if the model is too large. In int8, it always is, so that LiteRT can
    also answer all texts.

    Args:
        directory: directory of the version.
        served: the same model as a `ServingModule` for LiteRT.
        task_options: options of its task.
        answer_texts: the traced text signature of the SavedModel.
    """
    is_int8 = served.options.dtype == "int8"
    named = lengths(served.max_seq_length, _LONGEST[served.options.dtype])
    graphs, packed = any_length(served), _packed(served)
    fit = _MOST_PACKED // packed  # number of graphs
    if not graphs and not is_int8:  # the longest that fit into memory
        named = dict(sorted(named.items(), key=lambda item: -item[1])[:fit])
    if len(named) < 2 or (graphs and not is_int8 and not fit):
        logging.info("The SavedModel answers all texts: LiteRT would take too much memory for this model in float32.")
        return
    longest = max(named.values())
    logging.info("Converting for LiteRT, then measuring it and the SavedModel on texts of up to %d tokens.", longest)
    folder = os.path.join(directory, FOLDER)
    os.makedirs(folder)
    write_litert(folder, served, task_options, graphs or named)
    model = LitertTextModel(os.path.join(folder, MODEL_FILE))
    most = {str(length): _most_texts(model, served, answer_texts, length) for length in sorted(named.values())}
    if not is_int8 and not any(most.values()):
        shutil.rmtree(folder)
        logging.info("The SavedModel answers all texts: LiteRT was not faster for any length.")
        return
    interpreters = max(1, fit // len(graphs or named))
    speed = {MOST_TEXTS: most, INTERPRETERS: interpreters, ONLY_SHORT: not is_int8 and not graphs}
    write_text(os.path.join(folder, SPEED), json.dumps(speed, indent=1) + "\n")
    logging.info(
        "LiteRT answers requests of up to this many texts, by length in tokens: %s. Its model of %.0f MiB is in %s.",
        ", ".join(f"{length}: {number}" for length, number in most.items()),
        os.path.getsize(os.path.join(folder, MODEL_FILE)) / 2**20,
        FOLDER,
    )


def _packed(served):
    """Returns the bytes of the weights that LiteRT packs for one graph."""
    words = served.task.config.vocab_size  # of the table, which is not packed
    matrices = [spec.shape for spec in served.weight_specs if spec.shape.rank > 1 and spec.shape[0] != words]
    return sum(shape.num_elements() for shape in matrices) * (1 if served.options.dtype == "int8" else 4)


def _most_texts(model, served, answer_texts, length):
    """Returns the largest number of texts of a length that LiteRT answers no slower than the SavedModel."""
    runner, names = model.make_runner(cores()), (served.text_inputs, served.task.list_inputs)
    most, words = 0, _words_of(model, names, length)
    for count in _COUNTS:
        texts = sample_texts(*names, count, words=words)
        sequences = sum(map(len, texts[model.list_input])) if model.list_input else count
        if sequences * length > max(_MOST_TOKENS, length):
            break
        tensors = [tf.constant(texts[name]) for name in served.text_inputs]
        by_litert, by_saved_model = _in_turns(
            lambda texts=texts: model.answer(runner, texts),
            lambda tensors=tensors: [np.asarray(each) for each in answer_texts(*tensors).values()],
        )
        if by_litert <= by_saved_model:
            most = sequences
    return most


def _words_of(model, names, length):
    """Returns how many words of a sample text fill a sequence of this length, or fewer if one is already longer."""
    longest = 1
    for words in range(2, length):
        texts = [text for each in sample_texts(*names, 4, words=words).values() for text in each]
        flat = [each for text in texts for each in ([text] if isinstance(text, str) else text)]
        if len(names[0]) * model.most_tokens(flat) > length:
            break
        longest = words
    return longest


def _in_turns(*runs):
    """Returns the median seconds of each run; they take turns, since a machine may be busy now and then."""
    for run in runs:
        run()
    turns = [[_seconds(run) for run in runs] for _ in range(_REPEATS)]
    return [statistics.median(each) for each in zip(*turns, strict=True)]


def _seconds(run):
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin
