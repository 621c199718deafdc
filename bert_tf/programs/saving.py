"""What training programs leave beside their own files: the model in other programs' forms."""

import os

from bert_tf.names import FORMATS
from bert_tf.settings import Settings


def check_formats(settings: Settings):
    """Raises ValueError where `save_format` names a form that there is not."""
    for form in settings.save_format:
        if form not in FORMATS:
            raise ValueError(f"`save_format` must be of {', '.join(FORMATS)}. Received: {form!r}.")


def save_formats(settings: Settings):
    """Writes the model in `output_dir` in each form of `save_format`, into a folder that is called like the form.

    Raises:
        ValueError: a form cannot hold the model; what was trained is as it was.
    """
    from bert_tf.conversion.convert import convert

    for form in settings.save_format:
        print(convert(settings.output_dir, os.path.join(settings.output_dir, form), form, overwrite=True))
