"""A fine-tuned BERT as a scikit-learn classifier: `run_classifier` on texts in memory."""

import os
import pathlib
import signal
import sys
import tempfile
from collections.abc import Sequence
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.loading import load_description, save_description
from bert_tf.evaluation.error_reports.common import Shown, render_errors, render_headline, render_overview
from bert_tf.evaluation.error_reports.labels import SingleLabelReport
from bert_tf.inference.sklearn.embedder import (
    as_examples,
    as_label_ids,
    as_labels,
    as_texts,
    precision_of,
    seed_of_weights,
    with_string_input,
)
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.tasks.losses import class_weights
from bert_tf.tasks.registry import read_task, save_task
from bert_tf.tasks.retraining import rows_by_label
from bert_tf.training.distribution import xla_by_default
from bert_tf.training.fine_tuning import FineTuningConfig, fine_tuning_config
from bert_tf.training.interruption import Stopped
from bert_tf.training.scoring import BatchSettings
from bert_tf.training.state import RunConfig
from bert_tf.training.step import StepConfig
from bert_tf.training.trainer import Trainer
from bert_tf.utils.files import whole_directory
from bert_tf.utils.html_report import Page
from bert_tf.utils.names import USE_XLA
from bert_tf.utils.settings import Settings, options_of

# === Trained ===
# A classifier fine-tuned on texts in memory: training, prediction, saving, pickling.


class TrainedClassifier:
    """A fine-tuned model. Its pickle holds the files that `save` writes.

    Args:
        trainer: with the model.
        tokenizer: of the model.
        batching: how texts are batched.
        precision: the precision of the model.
    """

    def __init__(self, trainer: Trainer, tokenizer, batching: BatchSettings, precision: str):
        self._trainer, self._tokenizer, self._batching, self._precision = trainer, tokenizer, batching, precision
        self._files = {}

    def probabilities(self, texts: list[str], batch_size: int) -> np.ndarray:
        """Returns probabilities, float64 [n, L], with `batch_size` texts at a time."""
        self._load()
        task, batching = self._trainer.task, self._batching
        examples = task.encode_examples(self._tokenizer, as_examples(texts), batching.max_seq_length, False)
        return task.answers(self._trainer.outputs(batching.scoring(examples, batch_size)))

    def save(self, output_dir: str | os.PathLike):
        """Saves the files that `run_classifier` writes: weights, task, configuration, tokenizer, labels."""
        self._load()
        with whole_directory(output_dir) as folder:
            self._write(folder)

    def _write(self, folder):
        trainer, task = self._trainer, self._trainer.task
        save_description(folder, task.config, self._tokenizer, task.labels)
        save_task(folder, TrainedTask(task, ("text",), self._batching.max_seq_length))
        CheckpointManager(folder).save(trainer.global_step, tf1.named(trainer.model.variables))

    def _load(self):
        """Builds an unpickled model when it is first needed."""
        if self._trainer is not None:
            return
        with tempfile.TemporaryDirectory() as folder, precision_of(self._precision):
            for name, content in self._files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            description = load_description([folder])
            task, step = read_task(folder, description.config).task, StepConfig(use_xla=self._batching.use_xla)
            trainer = Trainer(task, RunConfig(folder, train_batch_size=1, num_train_steps=1, step=step))
            trainer.restore()
        self._trainer, self._tokenizer, self._files = trainer, description.tokenizer, {}

    def __getstate__(self):
        files = self._files
        if self._trainer is not None:
            with tempfile.TemporaryDirectory() as folder:
                self._write(folder)
                paths = sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file())
                files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
        return {"files": files, "batching": self._batching, "precision": self._precision}

    def __setstate__(self, state):
        self.__init__(None, None, state["batching"], state["precision"])
        self._files = state["files"]


def train_classifier(
    settings: Settings, texts: list[str], labels: list[str], label_ids: np.ndarray
) -> TrainedClassifier:
    """Fine-tunes as `run_classifier --do_train` does.

    Args:
        settings: the flags of a run, except its directory.
        texts: n of them.
        labels: the L names, in the order of the model's outputs.
        label_ids: the index of each text's label, int [n].

    Raises:
        ValueError: a setting is invalid for the texts or the model.
    """
    use_xla = xla_by_default() if settings.use_xla == "auto" else settings.use_xla == "true"
    model = load_description([settings.init_checkpoint])
    model.check_length(settings.max_seq_length)
    options = {"label_smoothing": settings.label_smoothing, "lstm_units": settings.lstm_units}
    options |= {"class_weights": class_weights(settings.class_weights, labels, label_ids)}
    task = ClassificationTask(model.config, len(labels), labels=labels, **options)
    examples = as_examples(texts, [labels[n] for n in label_ids])
    examples = task.encode_examples(model.tokenizer, examples, settings.max_seq_length, True)
    batching = BatchSettings(settings.max_seq_length, settings.bucket_by_length, use_xla)
    with tempfile.TemporaryDirectory() as folder, precision_of(settings.precision), seed_of_weights(settings.seed):
        step = StepConfig(
            seed=settings.seed,
            accumulation=settings.gradient_accumulation_steps,
            use_xla=use_xla,
            scale_loss=settings.precision == "mixed_float16",
        )
        run = RunConfig(
            folder,
            settings.train_batch_size,
            num_train_steps=0,
            learning_rate=settings.learning_rate,
            init_checkpoint=settings.init_checkpoint,
            save_checkpoints_steps=sys.maxsize,
            keep_checkpoints=1,
            step=step,
            label_rows=rows_by_label(task, model, settings.init_checkpoint),
        )
        config = options_of(FineTuningConfig, settings)
        run = fine_tuning_config(run, config, model.config.num_hidden_layers, examples, batching)
        trainer = Trainer(task, run)
        _train(trainer, batching.training(examples, run))
    return TrainedClassifier(trainer, model.tokenizer, batching, settings.precision)


def _train(trainer, batches):
    """Trains; Ctrl-C raises KeyboardInterrupt instead of ending the whole program as in a run."""
    try:
        trainer.fit(batches)
    except Stopped as stopped:
        if stopped.signal != signal.SIGINT:
            raise
        raise KeyboardInterrupt from stopped


# === Classifier ===


# Parameter -> its lowest and highest value, both allowed; None: no bound.
BOUNDS = {
    "learning_rate": (0, None),
    "num_train_epochs": (0, None),
    "train_batch_size": (1, None),
    "max_seq_length": (3, None),
    "warmup_proportion": (0, 1),
    "label_smoothing": (0, 1),
    "layerwise_lr_decay": (0, 1),
    "unfreeze_epochs": (0, None),
    "reinit_layers": (0, None),
    "gradient_accumulation_steps": (1, None),
    "lstm_units": (1, None),
    "seed": (0, None),
    "predict_batch_size": (1, None),
}
_OPTIONAL = ("lstm_units",)  # None: no BiLSTM


class BertClassifier(ClassifierMixin, BaseEstimator):
    """Text classifier: fine-tunes an encoder with the defaults and the arithmetic of `run_classifier`.

        BertClassifier("demo/weights/minilm", num_train_epochs=2).fit(texts, labels).predict(["A warm, funny film."])

    Args:
        model: the initial weights: a directory, as in `bert_tf.load`.
        learning_rate: the peak learning rate of Adam.
        num_train_epochs: passes over the texts.
        train_batch_size: texts per step.
        max_seq_length: longest sequence in tokens; longer texts are truncated.
        warmup_proportion: share of the steps used for warmup.
        class_weights: weights of the classes in the loss: None, 1 each; "balanced"; or {class: weight}.
        label_smoothing: share of the target that is spread over all classes.
        freeze_layers: number of layers to freeze, from the embeddings up; "all": the whole encoder.
        layerwise_lr_decay: each layer's learning rate is this times that of the layer above.
        unfreeze_epochs: every this many epochs, one more layer is unfrozen from the top; 0: all at once.
        reinit_layers: this many layers at the top, and the pooler, start from random weights.
        lstm_units: units of each direction of a BiLSTM between the encoder and the head; None: no BiLSTM.
        gradient_accumulation_steps: number of micro-batches per batch, to save memory.
        bucket_by_length: texts of similar lengths share a batch.
        precision: precision of the layers, one of `names.PRECISIONS`.
        use_xla: "auto", with a GPU or TPU only; "true" or "false".
        seed: of new weights, the order of the texts and dropout: the same seed, the same model.
        predict_batch_size: batch size in `predict`.

    A fitted classifier is pickled with its weights, tokenizer and classes. Each `fit` starts from `model` again.

    Attributes:
        classes_: sorted as by `numpy.unique`; the columns of `predict_proba`.
    """

    def __init__(
        self,
        model,
        learning_rate=5e-5,
        num_train_epochs=3.0,
        train_batch_size=32,
        max_seq_length=128,
        warmup_proportion=0.1,
        class_weights=None,
        label_smoothing=0.0,
        freeze_layers="0",
        layerwise_lr_decay=1.0,
        unfreeze_epochs=0.0,
        reinit_layers=0,
        lstm_units=None,
        gradient_accumulation_steps=1,
        bucket_by_length=True,
        precision="float32",
        use_xla="auto",
        seed=0,
        predict_batch_size=8,
    ):
        self.model = model
        self.learning_rate = learning_rate
        self.num_train_epochs = num_train_epochs
        self.train_batch_size = train_batch_size
        self.max_seq_length = max_seq_length
        self.warmup_proportion = warmup_proportion
        self.class_weights = class_weights
        self.label_smoothing = label_smoothing
        self.freeze_layers = freeze_layers
        self.layerwise_lr_decay = layerwise_lr_decay
        self.unfreeze_epochs = unfreeze_epochs
        self.reinit_layers = reinit_layers
        self.lstm_units = lstm_units
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.bucket_by_length = bucket_by_length
        self.precision = precision
        self.use_xla = use_xla
        self.seed = seed
        self.predict_batch_size = predict_batch_size

    def fit(self, X: Sequence[str], y: Sequence):
        """Fine-tunes on n texts and their labels.

        Raises:
            ValueError: texts and labels do not match, or a setting is invalid for them or the model.
        """
        texts = as_texts(X)
        classes, label_ids = as_labels(y, texts)
        self.trained_ = train_classifier(self._settings(), texts, [str(c) for c in classes], label_ids)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Sequence[str]) -> np.ndarray:
        """Returns the probability of each class for n texts, float64 [n, L], in the order of `classes_`.

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: the input is not a list of texts.
        """
        check_is_fitted(self)
        return self.trained_.probabilities(as_texts(X), self.predict_batch_size)

    def predict(self, X: Sequence[str]) -> np.ndarray:
        """Returns the most probable class of each of n texts, [n]; raises as `predict_proba`."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(-1)]

    def report(self, X: Sequence[str], y: Sequence) -> str:
        """Returns an error analysis of n texts as one HTML file; see docs/guides/evaluation.md.

        Args:
            X: texts that it was not fitted on.
            y: their true labels, all of them in `classes_`.

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: texts and labels do not match, or a label is not in `classes_`.
        """
        check_is_fitted(self)
        texts = as_texts(X)
        names, gold = [str(name) for name in self.classes_], as_label_ids(y, texts, self.classes_)
        lengths = np.array([len(text) for text in texts])
        numbers = range(len(texts))
        examples = Shown("X", list(map(str, numbers)), numbers, {"text": texts}, lengths, "characters")
        judged = SingleLabelReport(examples=examples, gold=gold, probabilities=self.predict_proba(texts), labels=names)
        page = Page(type(self).__name__)
        with page.cards():
            page.keep("headline", render_headline({"dev": judged}, {"accuracy": float(np.mean(judged.given == gold))}))
            page.keep("overview", render_overview({"dev": judged}))
        page.keep("eval", render_errors({"dev": judged}))
        return page.html()

    def save(self, output_dir: str | os.PathLike):
        """Saves the fine-tuned model in the format of `run_classifier`, to be exported, served or loaded.

        Args:
            output_dir: directory to create; must not exist or must be empty.

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: `output_dir` is not empty.
        """
        check_is_fitted(self)
        self.trained_.save(output_dir)

    def _settings(self):
        """Returns the settings of a run of `run_classifier`, except its directory."""
        given, weights = self.get_params(deep=False), self.class_weights
        _check(given)
        if isinstance(weights, dict):
            weights = [f"{label}:{weight}" for label, weight in weights.items()]
        given |= {"class_weights": [weights] if isinstance(weights, str) else weights}
        given |= {"freeze_layers": str(self.freeze_layers)}
        return Settings(given | {"init_checkpoint": os.fspath(given.pop("model"))}, given)

    def __sklearn_tags__(self):
        return with_string_input(super().__sklearn_tags__())


def _check(parameters):
    """Raises ValueError if a parameter is not valid for the command's flag of that name."""
    for name, (low, high) in BOUNDS.items():
        value = parameters[name]
        if value is None and name in _OPTIONAL:
            continue
        if not isinstance(value, Real) or not low <= value <= (float("inf") if high is None else high):
            end = "" if high is None else f" to {high}"
            raise ValueError(f"`{name}` must be a number from {low}{end}{'' if end else ' up'}. Got {value!r}.")
    if parameters["use_xla"] not in USE_XLA:
        raise ValueError(f"`use_xla` must be one of {', '.join(USE_XLA)}. Got {parameters['use_xla']!r}.")
