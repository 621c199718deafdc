"""Reads and writes eval_results.txt in the format of google-research/bert: sorted `key = value` lines."""

import os

from absl import logging

from bert_tf.utils.files import atomic_open, read_lines, with_suffix

RESULTS_FILE = "eval_results.txt"


def read_results(directory: str | os.PathLike, suffix: str = "") -> dict[str, float] | None:
    """Reads eval_results.txt, or eval_results<suffix>.txt, of a directory; returns None if there is none.

    Raises:
        ValueError: a line is not `key = number`.
    """
    path = os.path.join(directory, with_suffix(RESULTS_FILE, suffix))
    if not os.path.exists(path):
        return None
    scores = {}
    for number, line in enumerate(read_lines(path), 1):
        name, _, value = line.strip().partition(" = ")
        try:
            scores[name] = float(value)
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number} must be a name, ` = ` and a number; got {line[:60]!r}; evaluate the "
                "model again."
            ) from error
    return scores


def write_results(directory: str, scores: dict[str, float], global_step: int, prefix: str = "eval_", suffix: str = ""):
    """Writes {metric: score} as `<prefix><metric> = <score>`, together with `global_step`, and logs it.

    google-research/bert uses the prefix for the classifier, but not for pretraining.

    Args:
        directory, scores, global_step, prefix: as above.
        suffix: suffix of the file name, for metrics of another file.

    Raises:
        OSError: the file cannot be written; an older one is unchanged.
    """
    lines = {f"{prefix}{name}": value for name, value in scores.items()} | {"global_step": global_step}
    with atomic_open(os.path.join(directory, with_suffix(RESULTS_FILE, suffix))) as file:
        for name, value in sorted(lines.items()):
            logging.info("  %s = %s", name, value)
            file.write(f"{name} = {value}\n")
