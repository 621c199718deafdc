"""What the flags of run_classifier.py mean: where the texts are, what the task is, how it is trained."""

import os

from absl import flags

from bert_tf.flags._old_fine_tuning import check_loss, class_weights, fine_tuning_run, windows
from bert_tf.flags._old_training import adopt

FLAGS = flags.FLAGS


def _given(name):
    """Returns the flag's value, or None where it was left out."""
    return FLAGS[name].value if FLAGS[name].present else None


def classifier_splits() -> list[str]:
    """Returns what the run reads: "train", "dev", "test"."""
    wanted = {"train": FLAGS.do_train, "dev": FLAGS.do_eval or bool(FLAGS.keep_best), "test": FLAGS.do_predict}
    return [kind for kind, use in wanted.items() if use]


def classifier_source(trained: tuple | None):
    """Returns the `Source` that the flags describe.

    Args:
        trained: what `registry.find_task` returned for the model that is there already; None: it is trained now, or is
            of another program.

    Raises:
        ValueError: flags that contradict each other, or the model.
    """
    from bert_tf.tasks.classification.source import make_source

    if trained:
        adopt({"max_seq_length": trained[2]})
    problem, was = _given("problem_type"), trained and trained[0].problem_name
    if was and problem not in (None, was):
        raise ValueError(f"--problem_type must be the trained model's, {was}. Received: {problem}; leave it out.")
    source = make_source(
        FLAGS.task_name,
        FLAGS.data_dir,
        {"train": FLAGS.train_file, "dev": FLAGS.eval_file, "test": FLAGS.predict_file},
        problem=was if was and not FLAGS.task_name else problem,
        language=FLAGS.xnli_language,
        separator=FLAGS.label_separator,
        header=FLAGS.header,
        text_columns=FLAGS.text_column,
        label_column=FLAGS.label_column,
    )
    if trained and (source.problem, source.text_inputs) != (was, trained[1]):
        raise ValueError(
            f"The trained model must be one for {source.problem} with {' and '.join(source.text_inputs)}. Received one "
            f"for {was} with {' and '.join(trained[1])}; name another model, or check --task_name and --text_column."
        )
    check_loss(source.problem != "regression")
    if FLAGS["label_separator"].present and source.problem != "multi_label":
        raise ValueError(
            f"--label_separator must come with --problem_type=multi_label. Received it for {source.problem}; leave it "
            "out."
        )
    return source


def classifier_settings(source, labels: list[str] | None, train, before: tuple | None) -> dict:
    """Returns the arguments of `ClassificationTask` that the trained model or the flags decide.

    Args:
        source: the `Source`.
        labels: the label names; None where labels are numbers.
        train: the `Examples` to train on, or None.
        before: what `registry.find_task` returned for the model that is there already, also where this run trained it.

    Raises:
        ValueError: flags that contradict each other, the labels or the model.
    """
    from bert_tf.data.windowed import Windows
    from bert_tf.tasks.classification.examples import targets

    cut = windows()
    if before and not FLAGS.do_train:
        settings = before[0].to_dict()
        was = Windows(**settings["windows"]) if settings.get("windows") else None
        if FLAGS["long_text"].present and cut != was:
            raise ValueError(
                f"--long_text, --doc_stride and --max_windows must be what the model was trained with, {_told(was)}. "
                f"Received: {_told(cut)}; leave them out."
            )
        if FLAGS.fit_temperature and not os.path.exists(os.path.join(FLAGS.output_dir, "task.json")):
            raise ValueError(
                f"--fit_temperature must find the trained model in --output_dir, with which it is kept. Received "
                f"{FLAGS.output_dir}, which holds none; name the folder that it was trained into."
            )
        return {**settings, "windows": was, "rematerialize": FLAGS.rematerialize}
    weights = None
    if labels and train is not None:
        weights = class_weights(labels, targets(train, labels, source.problem)["label_ids"])
    return {
        "num_labels": len(labels) if labels else 1,
        "problem": source.problem,
        "labels": labels,
        "class_weights": weights,
        "label_smoothing": FLAGS.label_smoothing,
        "temperature": before[0].temperature if before else 1.0,  # a run that is finished keeps what was fitted
        "windows": cut,
        "rematerialize": FLAGS.rematerialize,
    }


def classifier_run(config, train, settings: dict, use_xla: bool):
    """Returns what `fine_tuning_run` does, with what `classifier_settings` found as part of the run's identity."""
    identity = {}
    if settings.get("class_weights"):
        identity["class_weights"] = list(settings["class_weights"])
    if settings.get("label_smoothing"):
        identity["label_smoothing"] = settings["label_smoothing"]
    return fine_tuning_run(config, train, use_xla, identity)


def _told(windows):
    return f"a stride of {windows.stride} and {windows.max_windows} windows" if windows else "no windows"
