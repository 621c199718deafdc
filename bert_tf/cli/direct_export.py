"""Exports by commands that otherwise predict: --export_dir and the flags of an export's form."""

from collections.abc import Sequence
from typing import Any

from bert_tf.export.settings import ExportFormSettings
from bert_tf.utils.settings import flags_of, options_of


def read_export_form(settings: Any, texts: Sequence[str]) -> Any:
    """Returns the `ExportOptions` of the export that a command is to write; if it is to predict, the default ones.

    Args:
        settings: settings of the command, with `export_dir`.
        texts: its arguments.

    Raises:
        ValueError: flags of an export without --export_dir, or texts with it; or nothing can be exported there.
    """
    from bert_tf.export.export_options import DEFAULT
    from bert_tf.runs.export_step import make_export_options

    if settings.export_dir is None:
        idle = sorted(settings.given & {flag.name for flag in flags_of(ExportFormSettings)})
        if idle:
            raise ValueError(f"--{idle[0]} requires --export_dir. Add it, or remove --{idle[0]}.")
        return DEFAULT
    if texts:
        raise ValueError("--export_dir cannot be combined with texts. Predict in a separate run.")
    form = make_export_options(options_of(ExportFormSettings, settings))
    form.check_folder(settings.export_dir)  # before the model is read
    form.check_processor()
    return form
