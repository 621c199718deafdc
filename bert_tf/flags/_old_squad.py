"""Flags of question answering, google-research/bert's but for --eval_file, and what they mean."""

from absl import flags

from bert_tf.flags._old_training import adopt

FLAGS = flags.FLAGS
_OPTIONS = ("n_best_size", "max_answer_length", "max_query_length", "doc_stride", "rematerialize")


def squad_files() -> dict[str, str | None]:
    """Returns the file of each split ("train", "dev", "test") that the run reads."""
    splits = {
        "train": (FLAGS.do_train, FLAGS.train_file),
        "dev": (FLAGS.do_eval, FLAGS.eval_file),
        "test": (FLAGS.do_predict, FLAGS.predict_file),
    }
    return {split: path for split, (use, path) in splits.items() if use}


def squad_options(trained: tuple | None) -> dict:
    """Returns the arguments of `QuestionAnsweringTask`.

    Args:
        trained: what `registry.find_task` returned for the model that is there already, or None.

    Raises:
        ValueError: a threshold is given for SQuAD 1.1.
    """
    given, threshold = FLAGS.null_score_diff_threshold, None
    stored = trained and trained[0].null_score_diff_threshold
    if trained and not FLAGS.do_train:  # it is asked as it was trained, unless flags say otherwise
        was = {name: getattr(trained[0], name) for name in _OPTIONS if name != "rematerialize"}
        adopt({**was, "max_seq_length": trained[2], "version_2_with_negative": stored is not None})
    if FLAGS.version_2_with_negative:
        threshold = next((value for value in (given, stored) if value is not None), 0.0)
    elif given is not None:
        raise ValueError(
            "--null_score_diff_threshold must come with --version_2_with_negative. Received it alone; add that flag, "
            "or leave it out."
        )
    return {name: getattr(FLAGS, name) for name in _OPTIONS} | {"null_score_diff_threshold": threshold}
