"""Pretrains BERT on records of create_pretraining_data, from random weights or from a checkpoint.

    bert-tf run_pretraining --input_file='records/train-*' --eval_file=records/held_out.tfrecord \\
        --bert_config_file=bert_config.json --vocab_file=vocab.txt --output_dir=out --do_train --do_eval

The same command started again continues a run that was interrupted. All flags: --help; docs/run_pretraining.md.
"""

import dataclasses
import hashlib
import os

from absl import logging

from bert_tf.flags.devices import GOOGLE_TPU
from bert_tf.flags.model import MODEL
from bert_tf.flags.pretraining import PRETRAINING
from bert_tf.flags.training import TRAINING
from bert_tf.programs import devices
from bert_tf.programs.models import describe_model
from bert_tf.programs.saving import check_formats, save_formats
from bert_tf.programs.start_embeddings import first_weights

FLAGS = (*MODEL, *TRAINING, *PRETRAINING, *GOOGLE_TPU)


def main(settings):
    """Trains and scores, or says whether the training would fit."""
    from bert_tf.data.pretraining import phases
    from bert_tf.training.history import History
    from bert_tf.training.job import Job
    from bert_tf.training.scoring import Scoring

    strategy, use_xla = devices.prepare(settings)
    plan = phases.plan_of(settings)
    held_out = phases.held_out_of(settings, plan)
    model = _model(settings, max(*plan.lengths, held_out.max_seq_length))
    sizes = min(model.config.vocab_size, model.tokenizer.vocab_size), model.config.type_vocab_size
    plan, held_out = plan.for_model(*sizes), held_out.for_model(*sizes)
    batches, scored = _streams(settings, plan, held_out, model.tokenizer.vocab)
    with strategy.scope():
        run = _run_config(settings, plan, model, use_xla)
        task = _task(settings, model.config, held_out)
        if settings.dry_run:
            _tell_whether_it_fits(settings, plan, task)
            return
        history = History(settings.output_dir, settings.given_values())
        job, scoring = Job(task, run, history), Scoring(scored)
        if settings.do_train:
            held_out = scoring if settings.eval_file else None
            job.train(batches, lambda built: _begin(settings, plan, model, built), held_out)
        else:
            job.restore()
        if settings.do_eval:
            _score(settings, job, scoring)
    save_formats(settings, strategy)


def _score(settings, job, scoring):
    from bert_tf.evaluation.results import write_results
    from bert_tf.training.cluster import by_chief

    scores = job.scores(scoring)
    by_chief(write_results, settings.output_dir, scores, job.global_step, "")
    job.history.concluded(job.global_step, scores)


def _objective(settings):
    from bert_tf.tasks.pretraining.objectives import OBJECTIVES

    return OBJECTIVES[settings.objective]


def _model(settings, longest):
    """Returns the `model_files.Description` of what is pretrained, on rows of up to `longest` pieces."""
    model = describe_model(settings)
    is_decoder = _objective(settings).is_decoder
    if model.config.is_decoder and not is_decoder:
        raise ValueError(
            "`objective` must be left_to_right for a model that learned so (is_decoder in its configuration). "
            f"Received: {settings.objective}; pass `objective=left_to_right`, or start from another model."
        )
    model.config = dataclasses.replace(model.config, is_decoder=is_decoder)
    model.check_length(longest)
    return model


def _task(settings, config, held_out):
    objective = _objective(settings)
    sentences = "nsp" if held_out.has_sentences else "none"
    sentences = sentences if sentences in objective.sentence_objectives else "none"
    return objective.make_task(config, sentences, held_out.packed, settings)


def _streams(settings, plan, held_out, vocab):
    """Returns the function that gives the batches to train on, and the one that gives those to score on."""
    import tensorflow as tf

    from bert_tf.data.pretraining.dynamic_masking import masks_for
    from bert_tf.training.guard import order_seed

    objective = _objective(settings)
    masks = masks_for(settings, vocab, [*plan.all_records, held_out]) if objective.draws_masks else None
    with_targets = tf.function(objective.of_batch) if objective.of_batch else lambda batch: batch

    def batches(start, rollbacks=0):
        return map(with_targets, plan.batches(order_seed(settings.seed, rollbacks), start, masks))

    def scored():
        draw = masks(held_out, settings.seed) if masks else None
        return map(with_targets, held_out.in_order(settings.eval_batch_size, settings.max_eval_steps, draw))

    return batches, scored


def _begin(settings, plan, model, built):
    """Makes the output directory, once the model is built and nothing prevents training it."""
    from bert_tf.model_files import save_description
    from bert_tf.training.output import prepare
    from bert_tf.training.will_it_fit import available_memory, warn_if_too_large

    check_formats(settings, model, built)
    warn_if_too_large(_largest_step(settings, plan, model.config, built.count_params()), available_memory())
    prepare(settings.output_dir, anew=settings.overwrite_output_dir)
    save_description(settings.output_dir, model.config, model.tokenizer)


def _run_config(settings, plan, model, use_xla):
    """Returns the `RunConfig` of a plan (`Phases`) and a model, in the scope of the strategy.

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
    identity = _identity(settings, plan, model)
    run = make_run_config(settings, plan.num_train_steps, settings.num_warmup_steps, use_xla, identity)
    guard, rollback = (GuardConfig(), Rollback()) if settings.skip_bad_steps else (None, None)
    fixed = settings.use_xla != "false"  # what is made for one shape, numerics.py compiles with XLA
    step = dataclasses.replace(run.step, fixed_shapes=fixed, guard=guard)
    rules = {name: settings.get(name) for name in ("optimizer", "schedule", "average_weights")}
    first = first_weights(settings, plan.phases[0].records, model)
    return dataclasses.replace(run, **rules, step=step, rollback=rollback, first_weights=first)


def _identity(settings, plan, model):
    """Returns what decides the result besides what `make_run_config` knows of."""
    identity = {"objective": settings.objective, "input_file": {path: os.path.getsize(path) for path in plan.paths}}
    identity |= {"phases": settings.phases} if settings.phases else {}
    if settings.start_embeddings != "random":
        identity["start_embeddings"] = settings.start_embeddings
    identity |= model.config.to_dict() | {"vocabulary": _fingerprint(model.tokenizer)}
    if not all(records.masked for records in plan.all_records):
        identity |= {name: settings.get(name) for name in ("masking", "masked_lm_prob", "max_predictions_per_seq")}
    return identity


def _fingerprint(tokenizer):
    """Returns what tells vocabularies apart, short enough for a message."""
    pieces = "\n".join(tokenizer.vocab).encode()
    return f"{tokenizer.vocab_size} pieces, SHA-256 {hashlib.sha256(pieces).hexdigest()[:16]}"


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

    def step(phase):
        length = phase.records.max_seq_length
        predictions = phase.records.max_predictions or settings.max_predictions_per_seq * length // min(plan.lengths)
        return StepShape(
            config,
            parameters,
            phase.batch_size,
            length,
            length - 1 if _objective(settings).is_decoder else predictions,
            tf.distribute.get_strategy().num_replicas_in_sync,
            settings.gradient_accumulation_steps,
            settings.precision,
            settings.rematerialize,
            averages_weights=settings.average_weights > 0,
        )

    return max(map(step, plan.phases), key=lambda step: estimate(step).peak)
