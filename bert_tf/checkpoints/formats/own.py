"""A bert_tf directory, as the training commands write it: model.ckpt-<step>, bert_config.json, vocab.txt, task.json."""

import os
import shutil

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.description_files import with_head_class, write_json, write_labels
from bert_tf.checkpoints.formats.google import float32_by_name
from bert_tf.checkpoints.model_arrays import ModelArrays, Written
from bert_tf.checkpoints.names.tf1 import TF1
from bert_tf.utils.names import TASK_FILE

_STEP = "global_step"
_SERVED = ("classifier/", "cls/squad/", "recurrent/", "tagger/")  # the heads that task.json may be about


def check_own(model: ModelArrays):
    """Raises ValueError if a weight has no name."""
    for path in model.arrays:
        TF1.from_ours(path)


def write_own(directory: str, model: ModelArrays) -> Written:
    """Writes a bert_tf directory into an existing directory.

    Raises:
        ValueError: the disk is full.
        OSError: a file cannot be written.
    """
    check_own(model)
    step = int(model.optimizer.get(_STEP, 0))
    prefix = CheckpointManager(directory).save(step, float32_by_name(model) | dict(model.optimizer))
    write_json(os.path.join(directory, "bert_config.json"), with_head_class(model.config.to_dict(), model))
    model.tokenizer.save(directory)
    write_labels(directory, model.labels)
    task = os.path.join(model.source_dir or directory, TASK_FILE)
    is_about = model.recipe is not None or any(path.startswith(_SERVED) for path in model.arrays)
    if model.source_dir and os.path.exists(task) and is_about:
        shutil.copyfile(task, os.path.join(directory, TASK_FILE))
    name = os.path.basename(prefix)
    return Written((f"{name}.data-00000-of-00001", f"{name}.index"))
