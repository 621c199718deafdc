"""Examples for training straight from text, without records: made afresh each epoch inside tf.data."""

import contextlib
import dataclasses
import tempfile

import numpy as np
import tensorflow as tf

from bert_tf.data.dataset import without_autotune
from bert_tf.data.features import FEATURES
from bert_tf.pretraining.corpus import unit
from bert_tf.pretraining.corpus.job import CorpusJob, CorpusStages, scratch_folder, tokenize_corpus
from bert_tf.utils.workers import Workers


@contextlib.contextmanager
def from_text(job: CorpusJob, batch_size: int, first_epoch: int = 0):
    """Makes examples straight from text, in each epoch other ones with other masks, and writes no record.

    The text is tokenized once, to `job.work_dir` or where temporary files go, and stays there until the end of the
    `with` block. Epoch e has the examples that pass e of `create_pretraining_data` would write, in another order.

    Args:
        job: what to read and to make; its output_files are not looked at.
        batch_size: rows a batch; what is left over at the end of an epoch is left out.
        first_epoch: where a resumed run goes on.

    Yields:
        An endless tf.data.Dataset of {name: [batch_size, ...]}.
    """
    options = dataclasses.replace(job.options, dynamic_masking=False)
    job = dataclasses.replace(job, options=options)
    with scratch_folder(job.work_dir or tempfile.gettempdir(), "pretraining_text") as directory:
        with Workers(job.num_workers, CorpusStages, (directory, job)) as workers:
            of = unit.number_of_units(tokenize_corpus(job, workers)["tokens"])
        stages = CorpusStages(directory, job)

        def generate():
            epoch = first_epoch
            while True:
                yield from _rebatch(_make_epoch(stages, options, epoch, of), batch_size)
                epoch += 1

        spec = {name: tf.TensorSpec(shape, dtype) for name, (shape, dtype) in _shapes(options, batch_size).items()}
        yield without_autotune(tf.data.Dataset.from_generator(generate, output_signature=spec).prefetch(2))


def _make_epoch(stages, options, epoch, of):
    """Yields the rows of one epoch, some thousands at a time, its units in a random order."""
    for number in np.random.default_rng([options.random_seed, epoch]).permutation(of).tolist():
        yield from unit.make_batches(stages.read_documents(number, of), options, stages.vocabulary, epoch, number)


def _rebatch(chunks, batch_size):
    """Yields batches of `batch_size` rows from chunks of any number of rows."""
    left = None
    for chunk in chunks:
        if left:
            chunk = {name: np.concatenate([left[name], rows]) for name, rows in chunk.items()}
        number = len(chunk["input_ids"]) // batch_size
        for start in range(0, number * batch_size, batch_size):
            yield {name: rows[start : start + batch_size] for name, rows in chunk.items()}
        left = {name: rows[number * batch_size :] for name, rows in chunk.items()}


def _shapes(options, batch_size):
    """{name: (shape, dtype)} of the batches that `unit.make_batches` makes."""
    names = ["input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights"]
    packed = options.packing
    if packed:
        names.append("sentence_ids")
    if options.sentence_objective != "none":
        names += ["next_sentence_labels"] + ["next_sentence_positions", "next_sentence_weights"] * packed
    lengths = {
        "token": options.max_seq_length,
        "prediction": options.max_predictions_per_seq,
        "sentence": options.max_sentences_per_seq if packed else 1,
    }
    return {name: ([batch_size, lengths[FEATURES[name].per]], FEATURES[name].dtype) for name in names}
