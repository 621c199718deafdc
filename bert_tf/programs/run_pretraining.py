"""Pretrains BERT on records of create_pretraining_data, from random weights or from a checkpoint.

    bert-tf run_pretraining --input_file='records/train-*' --eval_file=records/held_out.tfrecord \\
        --bert_config_file=bert_config.json --vocab_file=vocab.txt --output_dir=out --do_train --do_eval

The same command started again continues a run that was interrupted. All flags: --help; docs/run_pretraining.md.
"""

import dataclasses
import os

from absl import logging

from bert_tf.flags.devices import GOOGLE_TPU
from bert_tf.flags.model import MODEL
from bert_tf.flags.pretraining import PRETRAINING
from bert_tf.flags.training import TRAINING
from bert_tf.programs import devices
from bert_tf.programs.models import describe_model, with_vocabulary_of
from bert_tf.programs.recipes import with_recipe
from bert_tf.programs.saving import check_formats, save_formats
from bert_tf.settings import with_attributes

_VOCABULARY = "The vocabulary; default: the one beside --init_checkpoint, else the one beside the records."
FLAGS = (*with_attributes(MODEL, "vocab_file", help=_VOCABULARY), *TRAINING, *PRETRAINING, *GOOGLE_TPU)
_GENERATOR = "generator"  # in the output directory: the model that was trained beside the other


def main(settings):
    """Trains and scores, or says whether the training would fit."""
    from bert_tf.data.pretraining import phases
    from bert_tf.training.job import Job
    from bert_tf.training.scoring import Scoring

    settings = _complete(settings)
    strategy, use_xla = devices.prepare(settings)
    plan = phases.plan_of(settings)
    _objective(settings).check_records(settings.objective, plan.all_records if settings.do_train else [])
    held_out = phases.held_out_of(settings, plan)
    model = _model(settings, [*plan.all_records, held_out])
    sizes = min(model.config.vocab_size, model.tokenizer.vocab_size), model.config.type_vocab_size
    plan, held_out = plan.for_model(*sizes), held_out.for_model(*sizes)
    batches, scored = _streams(settings, plan, held_out, model.tokenizer)
    with strategy.scope():
        teacher = _teacher(settings, model, plan, held_out)
        run = _run_config(settings, plan, model, use_xla, teacher)
        task = _task(settings, _with_dropout(settings, model.config), plan.records, teacher)
        if settings.dry_run:
            _tell_whether_it_fits(settings, plan, task)
            return
        history = _history(settings, model, run, {"train": plan.paths, "held_out": held_out.paths})
        job, scoring = Job(task, run, history), Scoring(scored)
        if settings.do_train:
            held_out = scoring if settings.eval_file else None
            job.train(batches, lambda built: _begin(settings, plan, model, built), held_out)
            _save_generator(settings, model)
        else:
            job.restore()
        if settings.do_eval:
            _score(settings, job, scoring)
    save_formats(settings, strategy)


def _complete(settings):
    """Returns the settings with what the recipe and the objective say where the user did not.

    Raises:
        ValueError: a setting was given that means something with another objective alone.
    """
    settings = with_recipe(settings)
    return settings.adopt({"masking": _objective(settings).masking})


def _history(settings, model, run, files):
    """Returns the run's `History`, which writes its record too; `files` are the paths of each split."""
    from bert_tf.training.history import History
    from bert_tf.training.run_record import RunRecord

    record = RunRecord("pretraining", settings, model.config, model.tokenizer, files, run.identity())
    return History(settings.output_dir, settings.given_values(), record=record)


def _score(settings, job, scoring):
    from bert_tf.evaluation.results import write_results
    from bert_tf.training.cluster import by_chief

    scores = job.scores(scoring)
    by_chief(write_results, settings.output_dir, scores, job.global_step, "")
    job.history.concluded(job.global_step, scores)


def _objective(settings):
    from bert_tf.tasks.pretraining.objectives import objective_of

    return objective_of(settings)


def _model(settings, several):
    """Returns the `model_files.Description` of what is pretrained; all `Records` of the run must fit it."""
    from bert_tf.data.pretraining import fit

    model, objective = describe_model(with_vocabulary_of(settings, several)), _objective(settings)
    is_decoder = objective.is_decoder
    if model.config.is_decoder and not is_decoder:
        raise ValueError(
            "`objective` must be left_to_right for a model that learned so (is_decoder in its configuration). "
            f"Received: {settings.objective}; pass `objective=left_to_right`, or start from another model."
        )
    model.config = dataclasses.replace(model.config, is_decoder=is_decoder)
    model.check_length(max(records.max_seq_length for records in several))
    fit.check(several, model.tokenizer, objective.sentence_objectives)
    return model


def _with_dropout(settings, config):
    """Returns the configuration to train by; what is kept with the model has its own dropout, for fine-tuning."""
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    rate = settings.dropout_prob
    return config if rate is None else dataclasses.replace(config, **dict.fromkeys(names, rate))


def _teacher(settings, model, plan, held_out):
    """Returns the teacher of an objective that has one, in the scope of the strategy; else None."""
    from bert_tf.teachers.pretraining import encoder_teacher

    if not _objective(settings).is_taught:
        return None
    return encoder_teacher(settings, model, max(*plan.lengths, held_out.max_seq_length))


def _task(settings, config, records, teacher):
    objective = _objective(settings)
    sentences = records.sentence_objective or objective.sentence_objectives[0]
    sentences = sentences if sentences in objective.sentence_objectives else "none"
    taught = {"teacher": teacher} if teacher else {}
    return objective.make_task(config, sentences, records.packed, settings, **taught)


def _streams(settings, plan, held_out, tokenizer):
    """Returns the function that gives the batches to train on, and the one that gives those to score on."""
    import tensorflow as tf

    from bert_tf.data.pretraining.dynamic_masking import masks_for
    from bert_tf.training.guard import order_seed

    objective = _objective(settings)
    masks = masks_for(settings, tokenizer, [*plan.all_records, held_out]) if objective.draws_masks else None
    with_targets = tf.function(objective.of_batch) if objective.of_batch else lambda batch: batch

    def whole(batches, seed, start=0):
        for number, batch in enumerate(map(with_targets, batches), start):
            yield batch | objective.draws(batch, seed, number)

    def batches(start, rollbacks=0):
        seed = order_seed(settings.seed, rollbacks)
        return whole(plan.batches(seed, start, masks), seed, start)

    def scored():
        draw = masks(held_out, settings.seed) if masks else None
        batches = held_out.in_order(settings.eval_batch_size, settings.max_eval_steps, draw, plan.records.packed)
        return whole(batches, settings.seed)

    return batches, scored


def _begin(settings, plan, model, built):
    """Makes the output directory, once the model is built and nothing prevents training it."""
    from bert_tf.model_files import save_description
    from bert_tf.training.output import prepare
    from bert_tf.training.will_it_fit import available_memory, warn_if_too_large

    model = _written(settings, model)
    check_formats(settings, model, built)
    warn_if_too_large(_largest_step(settings, plan, model.config, built.count_params()), available_memory())
    prepare(settings.output_dir, anew=settings.overwrite_output_dir, others=(_GENERATOR,))
    save_description(settings.output_dir, model.config, model.tokenizer)


def _written(settings, model):
    """Returns the `model_files.Description` of what training leaves."""
    return dataclasses.replace(model, config=_objective(settings).config_of(model.config))


def _save_generator(settings, model):
    """Writes the network that was trained beside the model, if one was, as a model of its own."""
    from bert_tf.conversion.convert import save_generator
    from bert_tf.training.cluster import by_chief

    objective = _objective(settings)
    if objective.generator_of:
        config = objective.config_of(objective.generator_of(model.config, settings))
        by_chief(save_generator, settings.output_dir, os.path.join(settings.output_dir, _GENERATOR), config)


def _run_config(settings, plan, model, use_xla, teacher):
    """Returns the `RunConfig` of a plan (`Phases`) and a model, taught or not, in the scope of the strategy.

    Raises:
        ValueError: the batch of a phase cannot be divided evenly.
    """
    from bert_tf.training.distribution import check_batch_size
    from bert_tf.training.guard import GuardConfig, Rollback
    from bert_tf.training.run_config import make_run_config

    for phase in plan.phases:
        name = "The batch size of every phase" if settings.phases else "--train_batch_size"
        check_batch_size(phase.batch_size, settings.gradient_accumulation_steps, name)
    if settings.do_train and settings.num_warmup_steps >= plan.num_train_steps:
        logging.warning(
            "--num_warmup_steps=%d: the rate rises through all %d steps, and never reaches --learning_rate.",
            *(settings.num_warmup_steps, plan.num_train_steps),
        )
    identity = _identity(settings, plan, model) | ({"teacher": teacher.digest} if teacher else {})
    run = make_run_config(settings, plan.num_train_steps, settings.num_warmup_steps, use_xla, identity)
    guard, rollback = (GuardConfig(), Rollback()) if settings.skip_bad_steps else (None, None)
    fixed = settings.use_xla != "false"  # what is made for one shape, numerics.py compiles with XLA
    step = dataclasses.replace(run.step, fixed_shapes=fixed, guard=guard)
    return dataclasses.replace(run, average_weights=settings.average_weights, step=step, rollback=rollback)


def _identity(settings, plan, model):
    """Returns what decides the result besides what `make_run_config` knows of."""
    from bert_tf.data.pretraining.dynamic_masking import masks_identity

    identity = {"objective": settings.objective, "input_file": {path: os.path.getsize(path) for path in plan.paths}}
    identity |= {"phases": settings.phases} if settings.phases else {}
    if _with_dropout(settings, model.config) != model.config:
        identity["dropout_prob"] = settings.dropout_prob
    identity |= _objective(settings).identity(model.config, settings)
    identity |= _written(settings, model).config.to_dict() | {"vocabulary": _fingerprint(model.tokenizer)}
    if not all(records.masked for records in plan.all_records):
        identity |= masks_identity(settings)
    return identity


def _fingerprint(tokenizer):
    """Returns what tells vocabularies apart, short enough for a message."""
    from bert_tf.data.pretraining.origin import fingerprint

    return f"{tokenizer.vocab_size} pieces, SHA-256 {fingerprint(tokenizer.vocab)[:16]}"


def _tell_whether_it_fits(settings, plan, task):
    from bert_tf.programs.program import in_flags
    from bert_tf.training.will_it_fit import available_memory, check_weights, describe

    check_weights(task.config, available_memory())
    step = _largest_step(settings, plan, task.config, task.build_model().count_params())
    print(in_flags(describe(step, available_memory()), (flag.name for flag in FLAGS)))


def _largest_step(settings, plan, config, parameters):
    """Returns the `memory.StepShape` of the step that needs the most, in the scope of the strategy."""
    import tensorflow as tf

    from bert_tf.training.memory import StepShape, estimate

    objective = _objective(settings)
    generator = objective.generator_of(config, settings) if objective.generator_of else None

    def step(phase):
        length = phase.records.max_seq_length
        predictions = phase.records.max_predictions or settings.max_predictions_per_seq * length // min(plan.lengths)
        return StepShape(
            config,
            parameters,
            phase.batch_size,
            length,
            length - 1 if objective.is_decoder else predictions,
            tf.distribute.get_strategy().num_replicas_in_sync,
            settings.gradient_accumulation_steps,
            settings.precision,
            settings.rematerialize,
            generator,
            averages_weights=settings.average_weights > 0,
        )

    return max(map(step, plan.phases), key=lambda step: estimate(step).peak)
