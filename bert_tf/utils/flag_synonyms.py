"""What people call settings elsewhere, and the setting to suggest for a name that is unknown."""

import difflib
from collections.abc import Collection

# Names of Transformers, sentence-transformers and Keras, and of our own other commands; the first of ours that a
# command has is suggested. `train` and `eval` are arguments of `finetune`.
SYNONYMS = {
    "lr": ("learning_rate",), "epochs": ("num_train_epochs", "num_train_steps"),
    "num_epochs": ("num_train_epochs", "num_train_steps"),
    "batch_size": ("train_batch_size", "predict_batch_size", "eval_batch_size"),
    "per_device_train_batch_size": ("train_batch_size", "batch_size"),
    "per_device_eval_batch_size": ("eval_batch_size", "batch_size"),
    "predict_batch_size": ("batch_size",), "eval_batch_size": ("batch_size",),
    "max_length": ("max_seq_length",), "max_len": ("max_seq_length",),
    "model": ("init_checkpoint",), "model_name_or_path": ("init_checkpoint", "model"),
    "checkpoint": ("init_checkpoint", "model"), "init_checkpoint": ("model",), "model_dir": ("model", "output_dir"),
    "warmup_ratio": ("warmup_proportion",), "warmup_steps": ("num_warmup_steps", "warmup_proportion"),
    "max_steps": ("num_train_steps", "num_train_epochs"), "weight_decay": ("weight_decay_rate",),
    "max_grad_norm": ("clip_norm",), "lr_scheduler_type": ("schedule",), "optim": ("optimizer",),
    "early_stopping_patience": ("early_stopping",), "patience": ("early_stopping",),
    "save_steps": ("save_checkpoints_steps",), "save_total_limit": ("keep_checkpoints",),
    "label_smoothing_factor": ("label_smoothing",), "fp16": ("precision",), "bf16": ("precision",),
    "dtype": ("precision", "export_dtype"), "torch_dtype": ("precision", "export_dtype"),
    "train_dataset": ("train", "train_file"), "eval_dataset": ("eval", "eval_file"),
    "validation_file": ("eval_file",), "dev_file": ("eval_file",), "test_file": ("predict_file",),
    "input": ("input_file",), "output": ("output_dir", "output_file"), "output_path": ("output_file", "output_dir"),
    "overwrite": ("overwrite_output_dir",), "overwrite_output_dir": ("overwrite", "restart"),
    "seed": ("random_seed", "search_seed"), "random_seed": ("seed",), "random_state": ("seed", "random_seed"),
    "clients": ("concurrency",), "num_clients": ("concurrency",), "users": ("concurrency",),
    "port": ("rest_api_port",),
}  # fmt: skip


def suggest(name: str, known: Collection[str]) -> str | None:
    """Returns the one of the `known` names that an unknown name probably means, None without a good guess."""
    name = name.replace("-", "_")
    for ours in SYNONYMS.get(name, ()):
        if ours in known:
            return ours
    return next(iter(difflib.get_close_matches(name, known, 1)), None)
