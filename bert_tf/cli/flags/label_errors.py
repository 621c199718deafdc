"""Flags of the search for wrong labels."""

from bert_tf.utils.names import LAYERS
from bert_tf.utils.settings import Flag

SEARCH = (
    Flag("folds", 5, "Parts of the file; each is answered by a model that was trained on the others.", "integer",
         low=2),  # fmt: skip
    Flag("features", "last", "The layers of the frozen encoder from which, and from words, is learned what a label is.",
         choices=LAYERS),  # fmt: skip
    Flag("fine_tune", False, "Fine-tune a model for each part instead: much slower, and better where the model becomes "
         "good at the task.", "bool"),  # fmt: skip
)

# Of run_classifier: which examples, and where everything goes; and how a model of a fold is made.
ABOUT_FILE = (
    "train_file", "header", "text_column", "label_column", "task_name", "data_dir", "xnli_language", "output_dir",
    "overwrite_output_dir",
)  # fmt: skip
_MODEL = ("init_checkpoint", "bert_config_file", "vocab_file", "do_lower_case", "max_seq_length", "precision", "seed")
ABOUT_RUNS = (
    "long_text", "doc_stride", "max_windows", "save_checkpoints_steps", "train_batch_size", "predict_batch_size",
    "learning_rate", "num_train_epochs", "warmup_proportion", "schedule", "gradient_accumulation_steps",
    "bucket_by_length", "freeze_layers", "layerwise_lr_decay", "class_weights", "label_smoothing", "use_xla",
    "distribution_strategy", "deterministic",
)  # fmt: skip
ABOUT_MODELS = (*_MODEL, *ABOUT_RUNS)
OF_CLASSIFIER = (*ABOUT_FILE, *ABOUT_MODELS)
