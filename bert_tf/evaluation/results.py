"""eval_results.txt, as google-research/bert writes it: `key = value`, sorted."""

import os

from absl import logging

from bert_tf.files import atomic_open

RESULTS_FILE = "eval_results.txt"


def write_results(directory: str, scores: dict[str, float], global_step: int, prefix: str = "eval_"):
    """Writes {metric: score} as `<prefix><metric> = <score>` beside `global_step`, and logs it.

    google-research/bert has the prefix for the classifier and none for pretraining.

    Raises:
        OSError: the file cannot be written; an older one is unchanged.
    """
    lines = {f"{prefix}{name}": value for name, value in scores.items()} | {"global_step": global_step}
    path = os.path.join(directory, RESULTS_FILE)
    with atomic_open(path) as file:
        for name, value in sorted(lines.items()):
            logging.info("  %s = %s", name, value)
            file.write(f"{name} = {value}\n")
