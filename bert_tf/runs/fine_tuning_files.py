"""Which files a fine-tuning run reads."""

import filecmp
import itertools
import os

from bert_tf.tasks.options import ACTIONS
from bert_tf.utils.files import find_files
from bert_tf.utils.settings import Settings


def with_dry_run_defaults(settings: Settings) -> Settings:
    """Returns the settings with `do_train` for a dry run without any `do_X`: its purpose is the cost of training."""
    if settings.get("dry_run") and not any(settings.get(f"do_{action}") for action in (*ACTIONS.values(), "export")):
        return settings.adopt({"do_train": True, "do_eval": bool(settings.get("eval_file"))})
    return settings


def splits_to_read(settings: Settings) -> list[str]:
    """Returns the kinds of splits that the run reads."""
    wanted = {kind: settings.get(f"do_{action}") for kind, action in ACTIONS.items()}
    wanted["dev"] = wanted["dev"] or bool(settings.get("metric_for_best_model"))
    wanted["final"] = settings.do_eval and bool(settings.get("test_file"))
    return [kind for kind, is_wanted in wanted.items() if is_wanted]


def check_test_file(settings: Settings):
    """Raises ValueError if a test file would not be scored, or is the file by which the run selects and fits."""
    path, other = settings.get("test_file"), settings.get("eval_file")
    if path is None:
        return
    for pair in itertools.product(find_files(path), find_files(other) if other else ()):
        if all(map(os.path.isfile, pair)) and filecmp.cmp(*pair, shallow=False):
            raise ValueError(
                f"`test_file` and `eval_file` must be different files. Received {' and '.join(pair)}, which have the "
                "same contents; remove `test_file`, or pass examples that are not used to select anything."
            )


def kind_of_split(split: str) -> str:
    """Returns the kind of a split, one of `ACTIONS`: "dev" of "dev_matched"."""
    return split.partition("_")[0]
