"""Which files a fine-tuning run reads."""

import filecmp
import itertools
import os

from bert_tf.runs.settings import FineTuningSettings
from bert_tf.tasks.options import ACTIONS, SelectionOptions
from bert_tf.utils.files import find_files
from bert_tf.utils.settings import part_of


def with_dry_run_defaults(settings: FineTuningSettings) -> FineTuningSettings:
    """Returns the settings with `do_train` for a dry run without any `do_X`: its purpose is the cost of training."""
    actions = settings.do_train, settings.do_eval, settings.do_predict, settings.do_export
    if settings.dry_run and not any(actions):
        return settings.adopt({"do_train": True, "do_eval": bool(settings.eval_file)})
    return settings


def splits_to_read(settings: FineTuningSettings) -> list[str]:
    """Returns the kinds of splits that the run reads."""
    wanted = {
        "train": settings.do_train,
        "dev": settings.do_eval or bool(part_of(settings, SelectionOptions).metric_for_best_model),
        "test": settings.do_predict,
        "final": settings.do_eval and bool(settings.test_file),
    }
    return [kind for kind in ACTIONS if wanted[kind]]


def check_test_file(settings: FineTuningSettings):
    """Raises ValueError if a test file would not be scored, or is the file by which the run selects and fits."""
    path, other = settings.test_file, settings.eval_file
    if path is None:
        return
    for pair in itertools.product(find_files(path), find_files(other) if other else ()):
        if all(map(os.path.isfile, pair)) and filecmp.cmp(*pair, shallow=False):
            raise ValueError(
                f"`test_file` and `eval_file` must be different files; got {' and '.join(pair)}, which have the "
                "same contents; remove `test_file`, or pass examples that are not used to select anything."
            )


def kind_of_split(split: str) -> str:
    """Returns the kind of a split, one of `ACTIONS`: "dev" of "dev_matched"."""
    return split.partition("_")[0]
