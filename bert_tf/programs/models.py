"""Which model a program begins with: the one that --output_dir holds, or another."""

import os

from bert_tf.settings import Settings


def model_paths(settings: Settings) -> list[str | None]:
    """Returns where the model is described: the initial checkpoint, but first a trained one in the output directory.

    Training begins from the initial checkpoint, so then the order is the other way round.
    """
    trained = settings.output_dir if os.path.isdir(settings.output_dir) else None
    return [settings.init_checkpoint, trained] if settings.do_train else [trained, settings.init_checkpoint]


def describe_model(settings: Settings):
    """Returns the `model_files.Description` of the model.

    Raises:
        ValueError: there is none, or its parts do not fit together.
    """
    from bert_tf.model_files import load_description

    files = settings.bert_config_file, settings.vocab_file, settings.do_lower_case
    paths = model_paths(settings)
    if settings.do_train and settings.overwrite_output_dir and all(files[:2]):
        paths = [settings.init_checkpoint]  # what is thrown away says nothing of the model that takes its place
    return load_description(paths, *files)


def task_paths(settings: Settings) -> list[str]:
    """Returns where the task of a model that is there already is described: for training, only in this run's folder."""
    if settings.overwrite_output_dir:
        return []
    return [settings.output_dir] if settings.do_train else [path for path in model_paths(settings) if path]
