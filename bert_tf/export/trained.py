"""From a directory that a script trained into to a version that a server takes."""

import os

import keras
from absl import logging

from bert_tf.checkpoints import convert, heads
from bert_tf.export.saved_model import export
from bert_tf.export.served import ServedModel
from bert_tf.load import load_description
from bert_tf.tasks.registry import read_task

DTYPES = ("float32", "bfloat16")


def export_trained(directory: str, export_dir: str | None = None, dtype: str = "float32") -> str:
    """Exports the trained model in `directory` as the next version below `export_dir`, and returns its path.

    Args:
        directory: what a script's --output_dir holds after training.
        export_dir: the model's directory as a server knows it; by default `export` in `directory`.
        dtype: of weights and computation; probabilities are float32 in any case. bfloat16 halves the size.

    Raises:
        ValueError: no trained model is there, or the export cannot be written.
    """
    description = load_description([directory])
    task, text_inputs, max_seq_length = read_task(directory, description.config)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype)
    try:
        model = task.build_model()
    finally:
        keras.config.set_dtype_policy(before)
    report = convert.load(directory, model.variables, heads.unused(task))
    served = ServedModel(task, model, description.tokenizer, text_inputs, max_seq_length)
    path = export(served, export_dir or os.path.join(directory, "export"))
    logging.info("Exported %s as %s", report.path, path)
    return path
