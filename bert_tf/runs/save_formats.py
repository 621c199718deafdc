"""Further files of a training run: the model in other programs' formats."""

import os

from bert_tf.runs.settings import FineTuningSettings, PretrainingSettings
from bert_tf.training.settings import CheckpointSettings


def check_formats(settings: CheckpointSettings, model, built, task=None):
    """Checks, before training, that each format in `save_format` can represent the result.

    Args:
        settings: settings of the run.
        model: the `loading.ModelDescription` of what is trained.
        built: the Keras model.
        task: a `FineTuningTask`, or None.

    Raises:
        ValueError: a format cannot.
    """
    from bert_tf.export.conversion.convert import check_format

    for form in settings.save_format:
        check_format(form, model, built.variables, task)


def save_formats(settings: FineTuningSettings | PretrainingSettings, strategy):
    """Lets the chief write the model in `output_dir` in each form of `save_format`, into a folder named after it.

    Raises:
        ValueError: a form cannot represent the model; what was trained is as it was.
    """
    from bert_tf.export.conversion.convert import convert_model
    from bert_tf.training.workers import is_chief

    for form in settings.save_format if is_chief(strategy) else ():
        print(convert_model(settings.output_dir, os.path.join(settings.output_dir, form), form, overwrite=True))
