"""Flags of fine-tuning: which layers move and how fast, what the loss is, when to stop, long texts, calibration."""

import dataclasses

from absl import flags

from bert_tf.flags._old_training import run_config

FLAGS = flags.FLAGS


def fine_tuning_run(config, train, use_xla: bool, settings: dict | None = None):
    """Returns the `RunConfig` that the flags describe; what decides the result is part of its identity.

    Args:
        config: the encoder's `EncoderConfig`.
        train: the tokenized examples to train on, or None.
        use_xla: compile the step.
        settings: what else decides the result.

    Raises:
        ValueError: there are too few examples for one step, or a flag is out of range for the model.
    """
    num_examples, trained_on = (0, 0) if train is None else (len(train), train.fingerprint())
    run = run_config(num_examples, use_xla, {"train_examples": trained_on, **(settings or {})})
    return dataclasses.replace(run, layer_rates=layer_rates(config, num_examples), reinit_layers=FLAGS.reinit_layers)


def layer_rates(config, num_examples: int):
    """Returns the `layer_rates.LayerRates` that the flags of `define_layers` describe; None: all layers move alike.

    Args:
        config: the encoder's `EncoderConfig`.
        num_examples: to train on; 0 when nothing is trained.

    Raises:
        ValueError: a flag is out of range for this model, or two of them contradict each other.
    """
    from bert_tf.training.layer_rates import LayerRates

    given, unfreeze_steps = FLAGS.freeze_layers, 0
    if FLAGS.unfreeze_epochs:
        unfreeze_steps = max(1, int(num_examples / FLAGS.train_batch_size * FLAGS.unfreeze_epochs))
    freeze = int(given) if given.isascii() and given.isdigit() else given
    rates = LayerRates(config.num_hidden_layers, freeze, FLAGS.layerwise_lr_decay, unfreeze_steps)
    if FLAGS.reinit_layers:
        _check_reinit(rates)
    if (rates.freeze_layers or rates.unfreeze_steps) and not FLAGS.init_checkpoint:
        raise ValueError(
            "--freeze_layers and --unfreeze_epochs must come with --init_checkpoint. Received none, where the layers "
            "that would stand still are random; leave them out."
        )
    return None if rates.is_default else rates


def _check_reinit(rates):
    """Raises ValueError where layers would start from random weights and stay so, or there are no others."""
    if not FLAGS.init_checkpoint:
        raise ValueError(
            f"--reinit_layers must come with --init_checkpoint. Received --reinit_layers={FLAGS.reinit_layers} alone, "
            "where all weights are random; leave it out."
        )
    free = 0 if rates.freeze_layers == "all" else rates.num_layers - rates.freeze_layers
    if FLAGS.reinit_layers > free:
        raise ValueError(
            f"--reinit_layers must be at most the model's layers that are not frozen, {free}. Received: "
            f"{FLAGS.reinit_layers}."
        )


def check_loss(has_labels: bool):
    """Says whether the flags of `define_loss` fit the others and the problem.

    Args:
        has_labels: of the problem (`tasks/problems.py`): its targets are labels, not numbers.

    Raises:
        ValueError: they do not.
    """
    for_labels = {name: getattr(FLAGS, name) for name in ("class_weights", "label_smoothing", "fit_temperature")}
    if not has_labels and (given := [f"--{name}={value}" for name, value in for_labels.items() if value]):
        raise ValueError(f"Targets must be labels for {given[0].split('=')[0]}. Received numbers; leave it out.")
    if FLAGS.fit_temperature and not FLAGS.do_eval:
        raise ValueError("--fit_temperature must come with --do_eval. Received it alone; add --do_eval.")
    if FLAGS.early_stopping and not FLAGS.keep_best:
        raise ValueError(
            f"--early_stopping must come with --keep_best. Received --early_stopping={FLAGS.early_stopping} alone; say "
            "by which metric a checkpoint is better."
        )


def class_weights(labels: list[str], target) -> tuple[float, ...] | None:
    """Returns what --class_weights says of each label; None where it was not given.

    `balanced` is n / (L * count) for each of the L labels of n examples, as scikit-learn has it: all labels then weigh
    the same together. Of several labels, count is in how many examples the label holds.

    Args:
        labels: the L names.
        target: of the training examples, int [n] or [n, L] of 0 and 1; None where nothing is trained.

    Raises:
        ValueError: what was given is not that, names no label, or a label to be balanced has no example.
    """
    given = FLAGS.class_weights
    if not given or target is None:
        return None
    return _balanced(labels, target) if given == ["balanced"] else _named(labels, given)


def _balanced(labels, target):
    import numpy as np

    counts = target.sum(0) if target.ndim == 2 else np.bincount(target, minlength=len(labels))
    if missing := [label for label, count in zip(labels, counts, strict=True) if not count]:
        raise ValueError(
            f"--class_weights=balanced must have training examples of every label. Received none of {missing}; give "
            "the weights as label:weight pairs."
        )
    return tuple((len(target) / (len(labels) * counts)).tolist())


def _named(labels, pairs):
    weights = {}
    for pair in pairs:
        label, colon, weight = pair.rpartition(":")
        if not colon or label not in labels or label in weights or not _is_positive(weight):
            raise ValueError(
                "--class_weights must be `balanced` or label:weight pairs with commas between them, each label once, "
                f"each weight over 0. Received {pair!r}; the labels are {', '.join(labels)}."
            )
        weights[label] = float(weight)
    return tuple(weights.get(label, 1.0) for label in labels)


def _is_positive(text):
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def windows():
    """Returns the `data.windowed.Windows` that the flags of long texts describe, or None: texts are cut.

    Raises:
        ValueError: flags of windows without windows, or windows with gaps between them.
    """
    from bert_tf.data.windowed import Windows

    if FLAGS.long_text == "truncate":
        if given := [f"--{name}" for name in ("doc_stride", "max_windows") if FLAGS[name].present]:
            raise ValueError(
                f"--doc_stride and --max_windows must come with --long_text=window. Received {' and '.join(given)} "
                "alone; add it, or leave them out."
            )
        return None
    chosen = Windows(FLAGS.doc_stride or max(1, FLAGS.max_seq_length // 2), FLAGS.max_windows)
    chosen.check(FLAGS.max_seq_length - 2)
    return chosen
