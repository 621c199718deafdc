"""The teacher of a distillation: loaded, compared with its student, frozen, and called in the student's step."""

import hashlib
import math
import os
from collections.abc import Iterable, Sequence

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.config_shapes import check_shapes
from bert_tf.checkpoints.loading import ModelDescription, directory_of, load_description
from bert_tf.checkpoints.readers import Checkpoint, open_checkpoint
from bert_tf.models.config import EncoderConfig
from bert_tf.utils.files import brief


class Teacher:
    """A frozen teacher; called with a batch, it returns its outputs in inference mode. Create it in a strategy's scope.

    Attributes:
        config: configuration of its encoder.
        layer: the layer whose queries, keys and values it outputs, 1 being the lowest. If None, none.
        digest: a short digest of its weights.
        parameters: its number of parameters.

    Args:
        checkpoint: its weights.
        config, layer: as above.
        model: the model to fill with them.
        excuse: weights that may be missing or unused, as for `assign_weights`.
        features: names of its inputs, including optional ones.
        order: for each of the student's outputs, the index of the same output of the teacher. If None, they are in the
            same order.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: EncoderConfig,
        model: keras.Model,
        allow_unmatched: Iterable[str],
        features: Iterable[str],
        layer: int | None = None,
        order: Sequence[int] | None = None,
    ):
        report = assign_weights(checkpoint, model.variables, allow_unmatched, config.model_type)
        logging.info("%s", report)
        model.trainable = False
        self.config, self.layer = config, layer
        self.parameters = sum(math.prod(variable.shape) for variable in model.variables)
        self.digest = _digest(variable for variable in model.variables if variable.path in report.loaded)
        self._model, self._features, self._order = model, tuple(features), order

    def __call__(self, batch):
        inputs = {name: batch[name] for name in self._features if name in batch}
        # A student of another family may have more segments than the teacher has embeddings for.
        inputs["segment_ids"] = tf.minimum(inputs["segment_ids"], max(self.config.type_vocab_size - 1, 0))
        outputs = self._model(inputs, training=False)
        return outputs if self._order is None else tf.gather(outputs, self._order, axis=-1)


def _digest(variables):
    sha = hashlib.sha256()
    for variable in sorted(variables, key=lambda variable: variable.path):
        sha.update(variable.path.encode())
        sha.update(np.ascontiguousarray(variable.numpy()).tobytes())
    return f"SHA-256 {sha.hexdigest()[:16]}"


def open_teacher(path: str, student: ModelDescription, longest: int) -> tuple[Checkpoint, ModelDescription]:
    """Opens a teacher and checks that it accepts the student's inputs.

    Args:
        path: a checkpoint of any format.
        student: description of the student, without weights.
        longest: maximum sequence length.

    Raises:
        ValueError: the model does not exist, has another vocabulary, or only supports shorter sequences.
    """
    checkpoint = open_checkpoint(path)
    teacher = load_description([directory_of(path)])
    check_shapes(checkpoint, teacher.config)
    _check_vocabulary(path, teacher.tokenizer, student.tokenizer)
    if longest > teacher.config.max_length:
        raise ValueError(
            f"`teacher` must support sequences as long as the student's, {longest} tokens. {path} only supports "
            f"{teacher.config.max_length}; lower `max_seq_length`, or use a teacher with more positions."
        )
    if teacher.config.type_vocab_size > 1 and not student.tokenizer.template.second_segment:
        logging.warning("Text pairs: the student's sequences have one segment, but %s was trained with two.", path)
    config = teacher.config
    logging.info("Teacher: %s (%d layers, hidden size %d).", path, config.num_hidden_layers, config.hidden_size)
    return checkpoint, teacher


def _check_vocabulary(path, teacher, student):
    """Raises ValueError if the teacher would encode texts differently from the student."""
    theirs, own = (dict(enumerate(each.vocab)) for each in (teacher, student))
    differing = [n for n in range(max(len(theirs), len(own))) if theirs.get(n) != own.get(n)]
    if differing:
        n = differing[0]
        raise ValueError(
            f"`teacher` must have the student's vocabulary. {path} has {len(theirs)} tokens, the student has "
            f"{len(own)}; {len(differing)} differ, the first with id {n}: {brief(theirs.get(n))} and "
            f"{brief(own.get(n))}. Use the teacher's vocabulary for the student, or a teacher with the student's."
        )
    for what, one, other in (
        ("read texts", teacher.settings, student.settings),
        ("add special tokens", _special(teacher), _special(student)),
    ):
        if one != other:
            raise ValueError(
                f"`teacher` must {what} like the student. {os.fspath(path)} has {brief(one)}, but the student has "
                f"{brief(other)}; make their tokenizer_config.json agree, or use a teacher with the student's "
                "tokenizer."
            )


def _special(tokenizer):
    """Returns the special tokens of a sequence with two texts, in order."""
    return tokenizer.template.pieces(2)


def check_temperature(temperature: float):
    """Raises ValueError if the option `distillation_temperature` is 0."""
    if not temperature:
        raise ValueError("`distillation_temperature` must be above 0; got 0; 2 is a common choice.")
