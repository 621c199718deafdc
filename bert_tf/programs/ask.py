"""Asks a model server: this package's, or TensorFlow Serving itself. Needs no TensorFlow.

    bert-tf ask --server=localhost:8500 --model_name=NAME "A fine film." "A dull one."

prints one JSON line per text: {"text": ..., "label": ..., "probabilities": {label: p}}, or what else the model gives.
A model that takes several texts for one answer is asked with their names:

    bert-tf ask --model_name=squad --inputs=question,context "Who wrote it?" "Jane Austen did."

Without texts it reads them from standard input, one example per line, with tabs between its texts.
"""

import json
import sys

from bert_tf.flags.serving import ASK

FLAGS = ASK
TAKES_TEXTS = True


def main(settings, texts):
    """Prints a line for each example."""
    from bert_tf.serving.client import PAIR, Client, ask
    from bert_tf.serving.client_items import read_items

    names = _input_names(settings, PAIR)
    try:
        with Client(settings.server, settings.model_name, settings.timeout) as client:
            for line in ask(client, names, read_items(texts, names)):
                print(json.dumps(line, ensure_ascii=False), flush=True)
    except BrokenPipeError:  # the reader of our lines has seen enough
        sys.stderr.close()
        sys.exit(1)


def _input_names(settings, pair):
    """Returns what --inputs and --pair ask for.

    Raises:
        ValueError: they contradict one another, or a name is missing or there twice.
    """
    names = tuple(settings.inputs)
    if settings.pair and "inputs" in settings.given and names != pair:
        raise ValueError(
            f"--pair must come without --inputs, since it means {','.join(pair)}. Received also {','.join(names)}; "
            "leave one of them out."
        )
    if not names or not all(names) or len(set(names)) < len(names):
        raise ValueError(
            f"--inputs must be different names with commas between. Received {','.join(names)!r}; "
            "question,context is right for a model that answers questions."
        )
    return pair if settings.pair else names
