"""Flags of fine-tuning, whatever the task: which layers move and how fast, what the loss is, when to stop."""

from bert_tf.cli.flags.devices import GOOGLE_TPU
from bert_tf.cli.flags.model import EXPORT, MODEL
from bert_tf.cli.flags.training import RUN
from bert_tf.utils.names import PREDICTION_ORDERS
from bert_tf.utils.settings import Flag

LAYERS = (
    Flag("freeze_layers", "0", "This many layers stay as they are, from the embeddings up; `all`: the whole encoder, "
         "only the head is trained."),  # fmt: skip
    Flag("layerwise_lr_decay", 1.0, "Each layer's rate is that of the one above it times this; 1: all the same.",
         "float", low=0, high=1),  # fmt: skip
    Flag("unfreeze_epochs", 0.0, "Gradual unfreezing: at first only the head moves; each time this many epochs have "
         "passed, one more layer from the top joins; 0: all from the start.", "float", low=0),  # fmt: skip
    Flag("reinit_layers", 0, "This many layers at the top, and the pooler, start from random weights instead of the "
         "checkpoint's.", "integer", low=0),  # fmt: skip
)

LORA = (
    Flag("lora_rank", 0, "Train low-rank adapters (LoRA) of this rank, the pooler and the head, and nothing else; 0: "
         "no adapters.", "integer", low=0),  # fmt: skip
    Flag("lora_alpha", None, "Adapters are multiplied by this over --lora_rank; default: as much as --lora_rank.",
         "float", low=0),  # fmt: skip
    Flag("lora_targets", ["query", "value"], "Which maps of attention have one: query, key, value, output.", "list"),
)

LOSS = (
    Flag("class_weights", None, "How much the examples of each label weigh in the loss: `balanced`, or label:weight "
         "pairs; labels that are not named weigh 1.", "list"),  # fmt: skip
    Flag("label_smoothing", 0.0, "Share of the target that is spread over all labels.", "float", low=0, high=1),
)

STOPPING = (
    Flag("keep_best", None, "Score every checkpoint on --eval_file and keep the best by this metric: accuracy, f1, "
         "matthews, loss ..."),  # fmt: skip
    Flag("early_stopping", 0, "With --keep_best: stop after this many checkpoints in a row without improvement; 0: "
         "never.",
         "integer", low=0),  # fmt: skip
)

RECURRENT = (
    Flag("lstm_units", None, "Units of each direction of a BiLSTM between the encoder and the head, as the paper has "
         "it on a left-to-right encoder; default: no BiLSTM.", "integer", low=1),  # fmt: skip
)

LOOK = (
    Flag("strict_data", False, "What the look at the data warns of is an error: nothing is trained or written.",
         "bool"),  # fmt: skip
    Flag("dry_run", False, "Look at the data, say what memory and time training would take, and end: nothing is "
         "written.", "bool"),  # fmt: skip
)

SCORED = (
    Flag("sort_predictions", "file", "With --do_eval: how eval_predictions.tsv is sorted, as the examples are, or with "
         "the errors first that the model was surest of.", choices=PREDICTION_ORDERS),  # fmt: skip
)

# What every task's program has beside the task's own flags; and what it has where each example, or word, has a label.
FINE_TUNING = (*MODEL, *RUN, *LAYERS, *LORA, *EXPORT, *GOOGLE_TPU, *LOOK, *SCORED)
LABELS = (*LOSS, *STOPPING)
