"""What people call settings elsewhere, and the setting to suggest for a name that is unknown."""

import difflib
from collections.abc import Collection

# Names of Transformers, sentence-transformers and Keras; the first of ours that a command has is suggested.
_SYNONYMS = {
    "lr": ("learning_rate",), "epochs": ("num_train_epochs", "num_train_steps"),
    "num_epochs": ("num_train_epochs", "num_train_steps"),
    "batch_size": ("train_batch_size", "predict_batch_size", "eval_batch_size"),
    "per_device_train_batch_size": ("train_batch_size",), "per_device_eval_batch_size": ("eval_batch_size",),
    "max_length": ("max_seq_length",), "max_len": ("max_seq_length",),
    "model": ("init_checkpoint",), "model_name_or_path": ("init_checkpoint", "model"),
    "checkpoint": ("init_checkpoint", "model"), "init_checkpoint": ("model",),
    "warmup_ratio": ("warmup_proportion",), "warmup_steps": ("num_warmup_steps", "warmup_proportion"),
    "max_steps": ("num_train_steps", "num_train_epochs"), "weight_decay": ("weight_decay_rate",),
    "max_grad_norm": ("clip_norm",), "lr_scheduler_type": ("schedule",), "optim": ("optimizer",),
    "early_stopping_patience": ("early_stopping",), "save_steps": ("save_checkpoints_steps",),
    "save_total_limit": ("keep_checkpoints",), "label_smoothing_factor": ("label_smoothing",),
    "fp16": ("precision",), "bf16": ("precision",), "train_dataset": ("train", "train_file"),
    "eval_dataset": ("eval", "eval_file"), "validation_file": ("eval_file",), "test_file": ("predict_file",),
    "output": ("output_dir", "output_file"), "concurrency": ("callers",), "port": ("rest_api_port",),
}  # fmt: skip


def suggest(name: str, known: Collection[str]) -> str | None:
    """Returns the one of the `known` names that an unknown name probably means, None without a good guess."""
    for ours in _SYNONYMS.get(name, ()):
        if ours in known:
            return ours
    return next(iter(difflib.get_close_matches(name, known, 1)), None)
