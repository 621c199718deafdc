"""Flags of question answering, google-research/bert's but for --eval_file, and what they mean."""

from absl import flags

from bert_tf.flags.training import adopt

FLAGS = flags.FLAGS
_OPTIONS = ("n_best_size", "max_answer_length", "max_query_length", "doc_stride", "rematerialize")


def define_squad():
    """Which questions, how their contexts are cut, and what is made of the scores."""
    files = "Questions in SQuAD's format, 1.1 or 2.0, also packed (.json.gz)"
    flags.DEFINE_string("train_file", None, f"{files}, to train on.")
    flags.DEFINE_string("eval_file", None, f"{files}, to score on.")
    flags.DEFINE_string("predict_file", None, f"{files}, to answer; scored too where it has the answers.")
    flags.DEFINE_integer("doc_stride", 128, "Word pieces from the start of one window of a context to that of the "
                         "next.", lower_bound=1)  # fmt: skip
    flags.DEFINE_integer("max_query_length", 64, "Word pieces of a question at most; its end is cut.", lower_bound=1)
    flags.DEFINE_integer("n_best_size", 20, "Answers to each question in nbest_predictions.json.", lower_bound=1)
    flags.DEFINE_integer("max_answer_length", 30, "Word pieces of an answer at most.", lower_bound=1)
    flags.DEFINE_bool("version_2_with_negative", False, "Questions may have no answer (SQuAD 2.0).")
    flags.DEFINE_float("null_score_diff_threshold", None, "With --version_2_with_negative: a question has no answer "
                       "if no answer scores higher than the best one by more than this. Default: what --do_eval found "
                       "to be best, else 0.")  # fmt: skip
    flags.DEFINE_bool("verbose_logging", False, "Log every question of --do_predict with its answer and scores.")


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
