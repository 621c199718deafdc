"""Every flag of the programs, defined once, as data: tuples of `settings.Flag`. No logic."""

# What run_classifier.py and run_squad.py still use; it goes when they are programs of `bert_tf.programs`.
_OLD = {
    "_old": (
        "FLAGS", "apply_run_flags", "define_classifier_data", "define_export", "define_google_tpu", "define_layers",
        "define_long_text", "define_loss", "define_model", "define_run", "define_squad", "run",
    ),
    "_old_classifier": ("classifier_run", "classifier_settings", "classifier_source", "classifier_splits"),
    "_old_fine_tuning": ("fine_tuning_run",),
    "_old_squad": ("squad_files", "squad_options"),
    "_old_training": ("model_paths", "task_paths"),
}  # fmt: skip


def __getattr__(name):
    from importlib import import_module

    for module, names in _OLD.items():
        if name in names:
            return getattr(import_module(f"bert_tf.flags.{module}"), name)
    raise AttributeError(f"module 'bert_tf.flags' has no attribute {name!r}")
