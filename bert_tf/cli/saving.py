"""What training programs leave beside their own files: the model in other programs' forms."""

import os

from bert_tf.utils.settings import Settings


def check_formats(settings: Settings, model, built, task=None):
    """Says, before training, whether each form of `save_format` can hold the result.

    Args:
        settings: the flags.
        model: the `model_files.Description` of what is trained.
        built: the Keras model.
        task: a `tasks.task.FineTuned`, or None.

    Raises:
        ValueError: one cannot.
    """
    from bert_tf.export.conversion.convert import check

    for form in settings.save_format:
        check(form, model, built.variables, task)


def save_formats(settings: Settings, strategy):
    """Lets the chief write the model in `output_dir` in each form of `save_format`, into a folder named after it.

    Raises:
        ValueError: a form cannot hold the model; what was trained is as it was.
    """
    from bert_tf.export.conversion.convert import convert
    from bert_tf.training.cluster import is_chief

    for form in settings.save_format if is_chief(strategy) else ():
        print(convert(settings.output_dir, os.path.join(settings.output_dir, form), form, overwrite=True))
