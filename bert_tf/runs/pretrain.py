"""Pretraining: `pretrain`."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from bert_tf.evaluation.results import write_results
from bert_tf.runs.devices import compiles, prepare_devices, with_precision
from bert_tf.runs.pretraining import Pretraining
from bert_tf.runs.pretraining_memory import largest_step
from bert_tf.runs.pretraining_options import complete
from bert_tf.runs.save_formats import save_formats
from bert_tf.training.distribution import by_chief
from bert_tf.training.memory import available_memory, check_weights, describe_memory
from bert_tf.training.scored_files import scored_files
from bert_tf.training.scoring import Scoring
from bert_tf.training.tracking import tracked
from bert_tf.training.trainer import Trainer, prepare_directory
from bert_tf.utils.settings import Settings


class PretrainingRun(NamedTuple):
    """A finished run.

    Attributes:
        trainer: with the model as it was trained.
        strategy: in whose scope it ran.
    """

    trainer: Trainer
    strategy: tf.distribute.Strategy


def pretrain(settings: Settings, show: Callable[[str], None] = print) -> PretrainingRun | None:
    """Trains and evaluates on records, as the settings ask: do_train, do_eval.

    Args:
        settings: of pretraining.
        show: prints what `dry_run` finds out.

    Returns:
        the run; None after a dry run.

    Raises:
        ValueError: settings, records or checkpoints are not as they must be.
    """
    settings = with_precision(complete(settings))
    strategy = prepare_devices(settings)
    pretraining = Pretraining.of(settings)
    batches, scored = pretraining.streams()
    with strategy.scope():
        pretraining.load_teacher()
        trained, scored_rows = pretraining.plan.num_train_examples, settings.max_eval_steps * settings.eval_batch_size
        use_xla = compiles(settings, trained if settings.do_train else scored_rows)
        config, task = pretraining.run_config(use_xla), pretraining.task()
        if settings.dry_run:
            show(_describe_memory(pretraining, task))
            return None
        trainer = Trainer(task, config, pretraining.history(config))
        _train_and_score(pretraining, trainer, batches, scored)
    save_formats(settings, strategy)
    return PretrainingRun(trainer, strategy)


def _train_and_score(pretraining, trainer, batches, scored):
    settings, scoring = pretraining.settings, Scoring(scored)
    if settings.do_eval or settings.eval_file:
        next(scored())  # records that cannot be read, or do not fill a batch, end the run before it begins
    with tracked(trainer.history):
        if settings.do_train:
            trainer.fit(batches, pretraining.begin, held_out=scoring if settings.eval_file else None)
            pretraining.save_generator()
        else:
            trainer.restore()
            by_chief(prepare_directory, settings.output_dir)
        if settings.do_eval:
            _score(settings, trainer, scoring)


def _score(settings, trainer, scoring):
    scores, paths = trainer.scores(scoring), settings.eval_file or settings.input_file
    files = scored_files(settings.output_dir, paths, trainer.global_step)
    by_chief(write_results, settings.output_dir, scores, trainer.global_step, "", files.suffix)
    by_chief(files.note)
    trainer.history.concluded(trainer.global_step, {} if files.is_another else scores)


def _describe_memory(pretraining, task):
    check_weights(task.config, available_memory())
    step = largest_step(pretraining, task.config, task.build_model().count_params())
    return describe_memory(step, available_memory())
