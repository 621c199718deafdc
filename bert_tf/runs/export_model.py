"""Export of a trained model, with settings as keywords."""

import os
from typing import TYPE_CHECKING

from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.export.settings import ExportSettings
from bert_tf.export.trained_model import export_trained
from bert_tf.runs.export_step import make_export_options
from bert_tf.runs.keywords import read_keywords
from bert_tf.utils.settings import check_combinations, flags_of, options_of

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in `typing` from Python 3.11 on

    from bert_tf.runs.keyword_types import ExportKeywords


def export_model(model: str | os.PathLike, export_dir: str | os.PathLike, **settings: "Unpack[ExportKeywords]") -> str:
    """Exports a trained model as a SavedModel that takes texts, or for LiteRT, like `bert-tf export`.

    Args:
        model: directory of a trained model: the `output_dir` of fine-tuning, a Hugging Face directory with a task head,
            or a sentence-transformers directory; or a name on the Hugging Face Hub.
        export_dir: model base directory, as for TensorFlow Serving; the export becomes its next version.
        settings: `export_dtype`, `export_for`, `export_threads`, `calibration_file` and `export_explanations`, as in
            docs/reference/cli/export.md.

    Returns:
        directory of the new version.

    Raises:
        TypeError: a keyword is unknown, or a value has the wrong type.
        ValueError: there is no such model, or it cannot be exported with these settings.
    """
    flags = flags_of(ExportSettings)
    given = read_keywords("export_model", flags, settings, ("model", "export_dir"))
    check_combinations(flags, given)
    form = make_export_options(options_of(ExportSettings, given))
    path = resolve_model(model, "model")
    return export_trained(path, os.fspath(export_dir), form, calibration=given.calibration_file)
