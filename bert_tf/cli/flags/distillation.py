"""Flags of distillation: which model teaches, and what is learned from it."""

from bert_tf.utils import names
from bert_tf.utils.settings import Flag

_TEMPERATURE = Flag("distillation_temperature", 2.0, "What the teacher's and the student's logits are divided by "
                    "before they are compared.", "float", low=0)  # fmt: skip

OF_TASKS = (
    Flag("teacher", None, "A model fine-tuned for the same task on the same labels, whose answers are learned beside "
         "the labels."),  # fmt: skip
    _TEMPERATURE,
    Flag("distillation_weight", 0.5, "Share of the loss that compares with --teacher; the labels have the rest.",
         "float", low=0, high=1),  # fmt: skip
)

OF_PRETRAINING = (
    Flag("teacher", None, "With --objective=distillation: the model that teaches, with the vocabulary of the records."),
    Flag("distillation_losses", ["query_relations", "key_relations", "value_relations"], "What is learned, with a "
         f"weight after a colon where it is not 1: of {', '.join(names.DISTILLATION_LOSSES)}.", "list"),  # fmt: skip
    _TEMPERATURE,
    Flag("teacher_layer", None, "The teacher's layer whose attention and relations are learned, 1 being the lowest; "
         "default: its last.", "integer", low=1),  # fmt: skip
    Flag("relation_heads", None, "Parts into which queries, keys and values are cut to be compared among themselves; "
         "default: as many as the teacher has attention heads.", "integer", low=1),  # fmt: skip
)
