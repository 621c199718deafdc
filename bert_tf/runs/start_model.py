"""Which model a run starts from: the one that its output directory contains, or another."""

import os

from absl import logging

from bert_tf.runs.settings import FineTuningSettings, PretrainingSettings


def model_paths(settings: FineTuningSettings | PretrainingSettings) -> list[str | None]:
    """Returns where the model is described: the initial checkpoint, but first a trained one in the output directory.

    Training begins from the initial checkpoint, so then the order is the other way round.
    """
    trained = settings.output_dir if os.path.isdir(settings.output_dir) else None
    return [settings.init_checkpoint, trained] if settings.do_train else [trained, settings.init_checkpoint]


def describe_model(settings: FineTuningSettings | PretrainingSettings):
    """Returns the `loading.ModelDescription` of the model.

    Raises:
        ValueError: there is none, or its parts do not fit together.
    """
    from bert_tf.checkpoints.loading import load_description

    files = settings.bert_config_file, settings.vocab_file, settings.do_lower_case
    paths = model_paths(settings)
    if settings.do_train and settings.overwrite_output_dir and all(files[:2]):
        paths = [settings.init_checkpoint]  # what is thrown away says nothing of the model that takes its place
    return load_description(paths, *files)


def with_vocabulary_of(settings: PretrainingSettings, several: list) -> PretrainingSettings:
    """Returns the settings with the vocabulary of the records' folder, and its letter case, if no other is given.

    Args:
        settings: settings of the run.
        several: all `Records` of the run.

    Raises:
        ValueError: there is no vocabulary, or the records have several.
    """
    from bert_tf.checkpoints.loading import has_vocabulary
    from bert_tf.pretraining import record_compatibility

    over = settings.output_dir if settings.overwrite_output_dir else None  # says nothing of the run that follows there
    checkpoints = [path for path in model_paths(settings) if path and path != over]
    if settings.vocab_file or any(map(has_vocabulary, checkpoints)):
        return settings
    if found := record_compatibility.find_records_vocabulary(several):
        path, do_lower_case = found
        logging.info("Using the vocabulary of the records: %s, do_lower_case=%s.", path, str(do_lower_case).lower())
        return settings.adopt({"vocab_file": path, "do_lower_case": do_lower_case})
    if settings.bert_config_file and not settings.init_checkpoint:
        raise ValueError(
            "`vocab_file` is required, because neither a checkpoint nor the records have a vocabulary: none was "
            f"found next to {several[0].paths[0]}. Pass the one that the records were made with."
        )
    return settings


def task_paths(settings: FineTuningSettings) -> list[str]:
    """Returns where the task of an existing model is described: for training, only in this run's folder."""
    if settings.overwrite_output_dir:
        return []
    paths = [settings.output_dir] if settings.do_train else model_paths(settings)
    return [path for path in paths if path]
