"""Flags of pretraining, and what they mean: what is read when, and the `RunConfig`."""

import dataclasses
import hashlib
import os

from absl import flags, logging

from bert_tf.flags.text import define_masking
from bert_tf.flags.training import make_run_config

FLAGS = flags.FLAGS


def define_pretraining():
    """What is pretrained, on which records, for how long; the defaults are google-research/bert's."""
    flags.DEFINE_list("input_file", None, "Record files of create_pretraining_data, or patterns, to train on.")
    flags.DEFINE_list("eval_file", None, "Record files that are not trained on, to score on at each checkpoint and in "
                      "--do_eval; default: none at checkpoints, --input_file in --do_eval.")  # fmt: skip
    flags.DEFINE_string("phases", None, "Several kinds of rows, one after the other: LENGTHxSTEPS, or a share of "
                        "--num_train_steps, and @BATCH if it is another one, such as 128x90%,512x10%@8. Each phase "
                        "reads those of --input_file whose rows have its length.")  # fmt: skip
    flags.DEFINE_integer("num_train_steps", 100_000, "Steps in all.", lower_bound=1)
    flags.DEFINE_integer("num_warmup_steps", 10_000, "Steps in which the rate rises.", lower_bound=0)
    flags.DEFINE_integer("max_eval_steps", 100, "Batches of a scoring at most.", lower_bound=1)
    flags.DEFINE_enum("optimizer", "adamw", ("adamw", "lamb"), "BERT's Adam, or LAMB for batches of thousands.")
    flags.DEFINE_enum("schedule", "linear", ("linear", "polynomial", "cosine", "trapezoid"), "How the rate falls.")
    flags.DEFINE_enum("objective", "masked_lm", ("masked_lm", "left_to_right"), "What is foretold: masked pieces, or "
                      "each next piece by those before it.")  # fmt: skip
    flags.DEFINE_bool("skip_bad_steps", True, "Skip a step whose loss is not finite or leaps, count it, and go back to "
                      "a checkpoint where 20 come in a row.")  # fmt: skip
    flags.DEFINE_bool("dry_run", False, "Say whether it fits, and end: parameters, memory, tokens a step.")
    define_masking("What records were made with; of those without masks (create_pretraining_data --dynamic_masking) "
                   "masked pieces of a row at most.")  # fmt: skip


def config_for_objective(config):
    """Returns the configuration of the model that --objective trains: left to right it is a decoder.

    Raises:
        ValueError: a model that learned left to right shall go on with masks, which it would see from one side.
    """
    left_to_right = FLAGS.objective == "left_to_right"
    if config.is_decoder and not left_to_right:
        raise ValueError(
            "--objective must be left_to_right for a model that learned so (is_decoder in its configuration). "
            f"Received: {FLAGS.objective}; pass --objective=left_to_right, or start from another model."
        )
    return dataclasses.replace(config, is_decoder=left_to_right)


def pretraining_plan():
    """Returns the `Phases` of the run; without --phases, one.

    Raises:
        ValueError: the record files are not there, or not as the flags say.
    """
    from bert_tf.data.pretraining import phases
    from bert_tf.data.pretraining.batches import Records

    if FLAGS.do_train and not FLAGS.input_file or not (FLAGS.input_file or FLAGS.eval_file):
        raise ValueError(
            "--do_train must come with --input_file, and --do_eval with --eval_file or --input_file. Received none; "
            "name records of create_pretraining_data."
        )
    if not FLAGS.phases or not FLAGS.input_file:
        lengths = (FLAGS.max_seq_length, FLAGS.max_predictions_per_seq) if FLAGS.input_file else ()
        records = Records.of(FLAGS.input_file or FLAGS.eval_file, *lengths)
        return phases.Phases((phases.Phase(records, FLAGS.train_batch_size, FLAGS.num_train_steps),))
    if FLAGS["max_seq_length"].present:
        raise ValueError(
            "--phases must come without --max_seq_length, for it names the lengths. Received both: "
            f"{FLAGS.phases} and {FLAGS.max_seq_length}; leave --max_seq_length out."
        )
    steps = FLAGS.num_train_steps if FLAGS["num_train_steps"].present or "%" in FLAGS.phases else None
    return phases.parse(FLAGS.phases, FLAGS.input_file, FLAGS.train_batch_size, steps)


def held_out_records(plan):
    """Returns the `Records` to score on: --eval_file, or what the last phase is trained on.

    Raises:
        ValueError: the record files are not there, or of another kind than those of the plan (`Phases`).
    """
    from bert_tf.data.pretraining import phases
    from bert_tf.data.pretraining.batches import Records

    if not FLAGS.eval_file:
        return plan.records
    records = Records.of(FLAGS.eval_file)
    phases.check_kind([plan.records, records])
    return records


def masks_for(vocab, several):
    """Returns the function from (`Records`, seed) to what masks their batches, or to None: they are masked.

    Args:
        vocab: the pieces, in the order of their ids.
        several: all `Records` of the run. --max_predictions_per_seq is for the shortest rows; longer ones have more.
    """
    from bert_tf.data.pretraining import dynamic
    from bert_tf.data.pretraining.masking import Masking
    from bert_tf.data.pretraining.pieces import Pieces

    if all(records.masked for records in several) and any(FLAGS[f].present for f in ("masking", "masked_lm_prob")):
        raise ValueError(
            "--masking and --masked_lm_prob must come with records without masks. Received records that are "
            f"masked already, such as {several[0].paths[0]}; make them with create_pretraining_data --dynamic_masking."
        )
    shortest = min(records.max_seq_length for records in several)

    def masks(records, seed):
        if records.masked:
            return None
        most = FLAGS.max_predictions_per_seq * records.max_seq_length // shortest
        return dynamic.masker(Masking(FLAGS.masking, FLAGS.masked_lm_prob, most), Pieces.of(vocab), seed)

    return masks


def pretraining_config(plan, model, use_xla: bool):
    """Returns the `RunConfig` of a plan (`Phases`) and a model (`load.Description`), in the scope of the strategy.

    Raises:
        ValueError: the batch of a phase cannot be dealt out evenly.
    """
    from bert_tf.training.distribution import check_batch_size
    from bert_tf.training.guard import GuardConfig, Rollback

    for phase in plan.phases:
        flag = "The batch size of every phase" if FLAGS.phases else "--train_batch_size"
        check_batch_size(phase.batch_size, FLAGS.gradient_accumulation_steps, flag)
    settings = {"objective": FLAGS.objective, "input_file": {path: os.path.getsize(path) for path in plan.paths}}
    settings |= {"phases": FLAGS.phases} if FLAGS.phases else {}
    settings |= model.config.to_dict() | {"vocabulary": _fingerprint(model.tokenizer)}
    if FLAGS.do_train and FLAGS.num_warmup_steps >= plan.num_train_steps:
        logging.warning(
            "--num_warmup_steps=%d: the rate rises through all %d steps, and never reaches --learning_rate.",
            *(FLAGS.num_warmup_steps, plan.num_train_steps),
        )
    if not all(records.masked for records in plan.all_records):
        settings |= {f: FLAGS[f].value for f in ("masking", "masked_lm_prob", "max_predictions_per_seq")}
    config = make_run_config(plan.num_train_steps, FLAGS.num_warmup_steps, use_xla, settings)
    guard, rollback = (GuardConfig(), Rollback()) if FLAGS.skip_bad_steps else (None, None)
    fixed = FLAGS.use_xla != "false"  # what is made for one shape, numerics.py compiles with XLA
    step = dataclasses.replace(config.step, fixed_shapes=fixed, guard=guard)
    return dataclasses.replace(config, optimizer=FLAGS.optimizer, schedule=FLAGS.schedule, step=step, rollback=rollback)


def _fingerprint(tokenizer):
    """Returns what another vocabulary would not have, short enough for a message."""
    pieces = "\n".join(tokenizer.vocab).encode()
    return f"{tokenizer.vocab_size} pieces, SHA-256 {hashlib.sha256(pieces).hexdigest()[:16]}"


def largest_step(plan, config, parameters: int):
    """Returns the `memory.Plan` of the step that needs the most, in the scope of the strategy.

    Args:
        plan: the run's `Phases`.
        config: of the encoder.
        parameters: how many numbers the model has.
    """
    import tensorflow as tf

    from bert_tf.training.memory import Plan, estimate

    def step(phase):
        length = phase.records.max_seq_length
        predictions = phase.records.max_predictions or FLAGS.max_predictions_per_seq * length // min(plan.lengths)
        return Plan(
            config,
            parameters,
            phase.batch_size,
            length,
            length - 1 if FLAGS.objective == "left_to_right" else predictions,
            tf.distribute.get_strategy().num_replicas_in_sync,
            FLAGS.gradient_accumulation_steps,
            FLAGS.precision,
            FLAGS.rematerialize,
        )

    return max(map(step, plan.phases), key=lambda step: estimate(step).peak)
