"""Verifies that an exported model answers as it did when it was exported: here, or behind any model server.

    bert-tf verify models/reviews
    bert-tf verify models/reviews --server=localhost:8500 --model_name=reviews

Replays the golden requests of the newest version, or of one version's folder, and prints for each signature the largest
difference. Exit status 1 where a signature is missing or an answer differs.
"""

import logging

from bert_tf.flags.serving import VERIFY
from bert_tf.programs.connection import tls_of

FLAGS = VERIFY
TAKES_TEXTS = True


def main(settings, paths):
    """Prints the table of signatures.

    Raises:
        ValueError: there is not one path, or the model does not answer as it did.
    """
    from bert_tf.serving.verification import verify

    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # it tells of files that it reads
    if len(paths) != 1:
        raise ValueError(f"There must be one path, of the export. Received {len(paths)}: {' '.join(paths) or 'none'}.")
    how = settings.server, settings.model_name, settings.timeout, settings.tolerance, tls_of(settings)
    verdicts = verify(paths[0], *how)
    print(f"{'signature':<20}{'requests':>10}{'largest difference':>22}")
    for each in verdicts:
        print(f"{each.signature:<20}{each.requests:>10}{each.largest:>22.2g}{'   differs' * bool(each.problems)}")
    problems = [problem for each in verdicts for problem in each.problems]
    if problems:
        raise ValueError(
            f"{paths[0]} must answer as it did when it was exported. Received {len(problems)} other answers of "
            f"{sum(each.requests for each in verdicts)}: {'; '.join(problems)}."
        )
