"""Where a run finds the model that it starts from, or that is there already."""

import os

from bert_tf.settings import Settings


def model_paths(settings: Settings) -> list[str | None]:
    """Returns where the model is described: the initial checkpoint, but first a trained one in the output directory.

    Training begins from the initial checkpoint, so then the order is the other way round.
    """
    trained = settings.output_dir if os.path.isdir(settings.output_dir) else None
    paths = [trained, settings.init_checkpoint]
    return paths[::-1] if settings.do_train else paths


def task_paths(settings: Settings) -> list[str]:
    """Returns where the task of a model that is there already is described: for training, only in this run's folder."""
    if settings.overwrite_output_dir:
        return []
    return [settings.output_dir] if settings.do_train else [path for path in model_paths(settings) if path]
