"""A pretraining of some steps on made-up batches, for the tests of several devices and of several workers.

As a program it prints as JSON the losses on one and on two virtual CPU devices, of the kind that is its argument.
"""

import sys

from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
from tests import tiny
from tests.training import two_virtual_devices

# Name -> what the encoder's configuration has beside the usual, the sentence objective.
KINDS = {
    "masked_lm": ({}, "nsp"),
    "albert": ({"model_type": "albert", "embedding_size": 16, "num_hidden_groups": 1, "num_hidden_layers": 2}, "sop"),
    "roberta": ({}, "none"),
}
_LABELS = ("masked_lm_ids", "masked_lm_weights", "next_sentence_labels", "next_sentence_weights")


def losses(folder=None, kind="masked_lm") -> list[float]:
    """Trains on packed rows in the scope of the current strategy, without dropout; rows differ in how much they ask."""
    changes, sentence_objective = KINDS[kind]
    config = tiny.config(**changes)

    def make():
        task = PretrainingTask(config, sentence_objective, packed=True)
        return task, (*task.features, *_LABELS)

    return two_virtual_devices.losses(make, config.vocab_size, folder, max_predictions=4, max_sentences=2)


if __name__ == "__main__":
    two_virtual_devices.report(lambda: losses(kind=sys.argv[1]))
