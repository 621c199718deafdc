"""A model that teaches another one: read, held against its student, frozen, and asked in the student's step."""

import hashlib
import math
import os
from collections.abc import Iterable, Sequence

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoints import convert, shapes
from bert_tf.checkpoints.model_files import Description, directory_of, load_description
from bert_tf.checkpoints.readers import Checkpoint, open_checkpoint
from bert_tf.models.config import EncoderConfig
from bert_tf.utils.files import brief
from bert_tf.utils.settings import Settings


class Teacher:
    """A frozen model; called with a batch it returns its outputs, as in inference. To be made in a strategy's scope.

    Attributes:
        config: of its encoder.
        layer: the one whose queries, keys and values it shows, 1 being the lowest; None: it shows none.
        digest: what tells its weights apart from others, short enough for a message.
        parameters: how many numbers it has.

    Args:
        checkpoint: its weights.
        config, layer: as above.
        model: to be filled with them.
        excuse: which of them it need not have, or not use, as `convert.load` takes it.
        features: names of its inputs, those that a batch need not have included.
        order: for each of the student's outputs the place of the same among its own; None: they are in one order.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: EncoderConfig,
        model: keras.Model,
        excuse: Iterable[str],
        features: Iterable[str],
        layer: int | None = None,
        order: Sequence[int] | None = None,
    ):
        report = convert.load(checkpoint, model.variables, excuse, config.model_type)
        logging.info("%s", report)
        model.trainable = False
        self.config, self.layer = config, layer
        self.parameters = sum(math.prod(variable.shape) for variable in model.variables)
        self.digest = _digest(variable for variable in model.variables if variable.path in report.loaded)
        self._model, self._features, self._order = model, tuple(features), order

    def __call__(self, batch):
        inputs = {name: batch[name] for name in self._features if name in batch}
        # A student of another family may tell segments apart for which the teacher has no row.
        inputs["segment_ids"] = tf.minimum(inputs["segment_ids"], max(self.config.type_vocab_size - 1, 0))
        outputs = self._model(inputs, training=False)
        return outputs if self._order is None else tf.gather(outputs, self._order, axis=-1)


def _digest(variables):
    sha = hashlib.sha256()
    for variable in sorted(variables, key=lambda variable: variable.path):
        sha.update(variable.path.encode())
        sha.update(np.ascontiguousarray(variable.numpy()).tobytes())
    return f"SHA-256 {sha.hexdigest()[:16]}"


def open_teacher(path: str, student: Description, longest: int) -> tuple[Checkpoint, Description]:
    """Opens a teacher and finds out whether it reads what the student reads.

    Args:
        path: a checkpoint of any format.
        student: without weights.
        longest: row, in pieces.

    Raises:
        ValueError: there is no such model, or it has another vocabulary, or shorter rows.
    """
    checkpoint = open_checkpoint(path)
    teacher = load_description([directory_of(path)])
    shapes.check(checkpoint, teacher.config)
    _check_vocabulary(path, teacher.tokenizer, student.tokenizer)
    if longest > teacher.config.max_length:
        raise ValueError(
            f"`teacher` must read rows as long as the student's, {longest} pieces. Received {path}, which reads "
            f"{teacher.config.max_length}; lower `max_seq_length`, or name another teacher."
        )
    if teacher.config.type_vocab_size > 1 and not student.tokenizer.template.second_segment:
        logging.warning("Pairs of texts: the student's rows have one segment, and %s learned with two.", path)
    logging.info("Taught by %s: %d layers of %d.", path, teacher.config.num_hidden_layers, teacher.config.hidden_size)
    return checkpoint, teacher


def _check_vocabulary(path, teacher, student):
    """Raises ValueError where one text would be other ids to the teacher than to the student."""
    theirs, own = (dict(enumerate(each.vocab)) for each in (teacher, student))
    differing = [n for n in range(max(len(theirs), len(own))) if theirs.get(n) != own.get(n)]
    if differing:
        n = differing[0]
        raise ValueError(
            f"`teacher` must have the student's vocabulary. Received {path} with {len(theirs)} pieces, and a student "
            f"with {len(own)}; {len(differing)} differ, the first with id {n}: {brief(theirs.get(n))} and "
            f"{brief(own.get(n))}. Take the teacher's vocabulary for the student, or another teacher."
        )
    for what, one, other in (
        ("read texts", teacher.settings, student.settings),
        ("lay rows out", _special(teacher), _special(student)),
    ):
        if one != other:
            raise ValueError(
                f"`teacher` must {what} as the student does. Received {os.fspath(path)} with {brief(one)}, and a "
                f"student with {brief(other)}; take another teacher, or correct tokenizer_config.json."
            )


def _special(tokenizer):
    """Returns the special pieces of a row with two texts, in order."""
    return tokenizer.template.pieces(2)


def check_temperature(settings: Settings):
    """Raises ValueError where the temperature is 0."""
    if not settings.distillation_temperature:
        raise ValueError("`distillation_temperature` must be over 0. Received: 0; 2 is usual.")
