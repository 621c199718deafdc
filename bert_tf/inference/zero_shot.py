"""Zero-shot classification with a model of natural language inference; `cli/zero_shot.py` is the command."""

import os
from collections.abc import Sequence

from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.checkpoints.loading import load_description
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export.export_options import DEFAULT, ExportOptions
from bert_tf.export.precision import build_with_weights
from bert_tf.export.run_facts import read_run
from bert_tf.export.saved_model import export
from bert_tf.export.serving_module import ServingModule
from bert_tf.inference.predictor import Predictor, is_export
from bert_tf.inference.trained_text_model import trace_served
from bert_tf.tasks.registry import stated_task
from bert_tf.tasks.zero_shot import ZeroShotTask
from bert_tf.utils.names import NLI_TEMPLATE, SAVED_MODELS_FOR


class ZeroShot(Predictor):
    """Chooses among labels that no model was trained on, with a model of natural language inference (NLI).

        topics = bert_tf.ZeroShot("models/nli", ["traffic", "sports", "politics"], "This text is about {}.")
        topics("The bridge is closed.")     # {"label": "traffic", "probabilities": {"traffic": 0.91, ...}}

    A text is read once per label. As a `Predictor`, it predicts for one text, several, or a file; a batch of
    `batch_size` consists of pairs of a text and a label.

    Args:
        model: a text classifier with a label that starts with "entail": the `output_dir` of `train classifier` on text
            pairs, a Hugging Face directory, or a name on the Hugging Face Hub.
        labels: the labels to choose from, in words.
        template: sentence that states that a label applies; "{}" is the label.
        multi_label: whether any number of labels may apply to a text, so that their probabilities are independent, as
            that of a single label always is. Otherwise exactly one label applies, and the probabilities sum to 1.
        max_seq_length: maximum tokens of a text and a label's sentence together. If None, as in training, or the
            number of the model's positions.

    Attributes:
        task: the `ZeroShotTask`.

    Raises:
        ValueError: there is no such model, or it is not one of NLI; a label or the template is not as described; or a
            label does not fit half of the sequence.
    """

    MODEL = "model"

    def __init__(
        self,
        model: str | os.PathLike,
        labels: Sequence[str],
        template: str = NLI_TEMPLATE,
        multi_label: bool = False,
        max_seq_length: int | None = None,
    ) -> None:
        self._path = resolve_model(model, "model")
        if is_export(self._path):
            raise ValueError(
                f"`model` must be a trained model; got {self._path}, an export. If it is a zero-shot classifier, "
                "predict with `bert_tf.Predictor`, `bert-tf predict` or `bert-tf serve`."
            )
        self._description = load_description([self._path])
        nli_labels, longest = _read_nli(self._path, self._description)
        self.task = ZeroShotTask(self._description.config, nli_labels, labels, template, multi_label)
        self.max_seq_length = longest if max_seq_length is None else max_seq_length
        self._description.check_length(self.max_seq_length)
        self._take(trace_served(self._path, self._serve(DEFAULT)[0])[0])

    def export(self, export_dir: str | os.PathLike, options: ExportOptions = DEFAULT) -> str:
        """Exports the model with its labels as a SavedModel that takes texts, and returns its path.

        Args:
            export_dir: the model's directory, which a server is pointed at.
            options: options of the export.

        Raises:
            ValueError: the options are for another format, the tokenizer cannot be exported, or the export cannot be
                written.
        """
        if options.export_for not in SAVED_MODELS_FOR:
            raise ValueError(
                f"`export_for` of zero-shot classification must be one of {', '.join(SAVED_MODELS_FOR)}; got "
                f"{options.export_for}; export the NLI model itself with `bert-tf export` for that runtime."
            )
        self._description.tokenizer.check_exportable("An export")
        served, checkpoint = self._serve(options)
        return export(served, export_dir, served.task.to_dict(), read_run(self._path, checkpoint))

    def _predict(self, columns, ids, batch_size, are_few=False):
        return super()._predict(columns, ids, max(1, batch_size // len(self.task.labels)), are_few)

    def _serve(self, options):
        """Returns the served model, and the path of its checkpoint."""
        task = ZeroShotTask(self.task.config, **self.task.to_dict(), every_window=options.export_for == "gpu")
        tokenizer = self._description.tokenizer
        task.check_length(tokenizer, self.max_seq_length)
        model, report = build_with_weights(task, open_checkpoint(self._path), options.variable_dtype)
        return ServingModule(task, model, tokenizer, ("text",), self.max_seq_length, options=options), report.path


def _read_nli(path, description):
    """Returns the labels of an NLI model, and its maximum sequence length; raises ValueError if it is not one."""
    trained = stated_task(path, description)
    task = trained and trained.task
    reason = "it does not define a task"
    if task is not None:
        reason = f"its task is {task.name}"
        if task.name == "classification":
            reason = next((f"it has {name}" for name in ("lstm_units", "windows") if getattr(task, name)), "")
            if task.labels is None or task.has_several_labels:
                reason = f"its problem is {task.problem_name}"
    if reason:
        raise ValueError(
            f"`model` must be a text classifier of pairs that was trained on natural language inference; {path} is "
            f"not: {reason}. Train one on text pairs with `bert-tf train classifier`, for example on MNLI, or pass "
            "one from the Hugging Face Hub."
        )
    return task.outputs, trained.max_seq_length
