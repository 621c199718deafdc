"""Pretrains BERT on records of create_pretraining_data, from random weights or from a checkpoint.

    bert-tf run_pretraining --input_file='records/train-*' --eval_file=records/held_out.tfrecord \\
        --bert_config_file=bert_config.json --vocab_file=vocab.txt --output_dir=out --do_train --do_eval

The same command started again continues a run that was interrupted. All flags: --help; docs/run_pretraining.md.
"""

from bert_tf.cli import devices
from bert_tf.cli.ending import tell_next_of_pretraining
from bert_tf.cli.flags.devices import GOOGLE_TPU
from bert_tf.cli.flags.model import MODEL
from bert_tf.cli.flags.pretraining import PRETRAINING
from bert_tf.cli.flags.training import TRAINING
from bert_tf.cli.saving import save_formats
from bert_tf.utils.settings import with_attributes

_VOCABULARY = "The vocabulary; default: the one beside --init_checkpoint, else the one beside the records."
FLAGS = (*with_attributes(MODEL, "vocab_file", help=_VOCABULARY), *TRAINING, *PRETRAINING, *GOOGLE_TPU)


def main(settings):
    """Trains and scores, or says whether the training would fit."""
    from bert_tf.cli.pretraining import Pretraining, complete
    from bert_tf.training.cluster import is_chief

    settings = complete(settings)
    strategy, use_xla = devices.prepare(settings)
    pretraining = Pretraining.of(settings)
    batches, scored = pretraining.streams()
    with strategy.scope():
        pretraining.load_teacher()
        run, task = pretraining.run_config(use_xla), pretraining.task()
        if settings.dry_run:
            _tell_whether_it_fits(pretraining, task)
            return
        step = _train_and_score(pretraining, task, run, batches, scored)
    save_formats(settings, strategy)
    if settings.do_train and is_chief(strategy):
        tell_next_of_pretraining(settings, step)


def _train_and_score(pretraining, task, run, batches, scored):
    """Returns the step of the result."""
    from bert_tf.training.cluster import by_chief
    from bert_tf.training.job import Job
    from bert_tf.training.output import prepare
    from bert_tf.training.scoring import Scoring
    from bert_tf.training.tracking import tracked

    settings = pretraining.settings
    job, scoring = Job(task, run, pretraining.history(run)), Scoring(scored)
    with tracked(job.history):
        if settings.do_train:
            job.train(batches, pretraining.begin, scoring if settings.eval_file else None)
            pretraining.save_generator()
        else:
            job.restore()
            by_chief(prepare, settings.output_dir)
        if settings.do_eval:
            _score(settings, job, scoring)
    return job.global_step


def _score(settings, job, scoring):
    from bert_tf.evaluation.results import write_results
    from bert_tf.training.cluster import by_chief
    from bert_tf.training.scored_files import scored_files

    scores, paths = job.scores(scoring), settings.eval_file or settings.input_file
    files = scored_files(settings.output_dir, paths, job.global_step)
    by_chief(write_results, settings.output_dir, scores, job.global_step, "", files.suffix)
    by_chief(files.note)
    job.history.concluded(job.global_step, {} if files.is_another else scores)


def _tell_whether_it_fits(pretraining, task):
    from bert_tf.cli.largest_step import largest_step
    from bert_tf.cli.program import in_flags
    from bert_tf.training.will_it_fit import available_memory, check_weights, describe

    check_weights(task.config, available_memory())
    step = largest_step(pretraining, task.config, task.build_model().count_params())
    print(in_flags(describe(step, available_memory()), (flag.name for flag in FLAGS)))
