"""Our own directory, as the programs that train leave it: model.ckpt-<step>, bert_config.json, vocab.txt, task.json."""

import os
import shutil

from bert_tf.checkpoints import names
from bert_tf.checkpoints.store import Store
from bert_tf.checkpoints.writers.description import with_head_class, write_json, write_labels
from bert_tf.checkpoints.writers.google import float32_by_name
from bert_tf.checkpoints.writers.model import Model, Written

_STEP = "global_step"
_TASK_FILE = "task.json"
_SERVED = ("classifier/", "cls/squad/", "recurrent/", "tagger/")  # the heads that task.json may be about


def check(model: Model):
    """Raises ValueError where a weight has no name."""
    for path in model.arrays:
        names.TF1.from_ours(path)


def write(directory: str, model: Model) -> Written:
    """Writes the files into a directory that is there.

    Raises:
        ValueError: the disk is full.
        OSError: a file cannot be written.
    """
    check(model)
    step = int(model.optimizer.get(_STEP, 0))
    prefix = Store(directory).save(step, float32_by_name(model) | dict(model.optimizer))
    write_json(os.path.join(directory, "bert_config.json"), with_head_class(model.config.to_dict(), model))
    model.tokenizer.save(directory)
    write_labels(directory, model.labels)
    task = os.path.join(model.beside or directory, _TASK_FILE)
    is_about = model.recipe is not None or any(path.startswith(_SERVED) for path in model.arrays)
    if model.beside and os.path.exists(task) and is_about:
        shutil.copyfile(task, os.path.join(directory, _TASK_FILE))
    name = os.path.basename(prefix)
    return Written((f"{name}.data-00000-of-00001", f"{name}.index"))
