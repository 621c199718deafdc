"""The files that a command names are there: that is found out before TensorFlow is imported, which takes 5 s."""

import glob
import os

from bert_tf.utils.files import check_exists
from bert_tf.utils.settings import Settings

# Flags of files that a program reads -> what makes it read them; (): it does so whatever is asked for.
_READ = {
    "train_file": ("do_train", "dry_run"),
    "eval_file": ("do_eval", "do_train", "dry_run"),
    "predict_file": ("do_predict",),
    **dict.fromkeys(
        ("input_file", "held_out_file", "data_file", "predictions_file", "null_odds_file", "words_file", "phrase_file",
         "bert_config_file", "generator_config_file", "vocab_file", "compare_vocab_file"),
        (),
    ),
}  # fmt: skip


def check_files(settings: Settings):
    """Raises ValueError where a flag names a file that is not there, although it would be read."""
    for name, actions in _READ.items():
        value, asked = settings.where_given(name), [settings.get(action) for action in actions if action in settings]
        if not value or asked and not any(asked):
            continue
        if isinstance(value, str):
            check_exists(value, name)
            continue
        for pattern in value:  # of a list: folders and patterns too
            if not (os.path.exists(pattern) or "://" in pattern or glob.glob(pattern, recursive=True)):
                raise ValueError(
                    f"`{name}` must be files, folders or patterns that match some. Received {pattern!r}, which matches "
                    "no file; check its spelling."
                )
