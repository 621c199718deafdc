"""A classifier that was fine-tuned on texts in memory: made, asked, written to a folder, pickled."""

import os
import pathlib
import signal
import tempfile

import numpy as np

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.model_files import load_description, save_description
from bert_tf.checkpoints.store import Store
from bert_tf.inference.sklearn.process import precision_of, seed_of_weights
from bert_tf.inference.sklearn.texts import as_examples
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.labels import class_weights
from bert_tf.tasks.registry import read_task, save_task
from bert_tf.tasks.task import TrainedTask
from bert_tf.training.batching import Batching, batching_of
from bert_tf.training.distribution import xla_by_default
from bert_tf.training.fine_tuning import fine_tuning_config
from bert_tf.training.interruption import Stopped
from bert_tf.training.job import Job
from bert_tf.training.loop import RunConfig
from bert_tf.training.step import StepConfig
from bert_tf.utils.files import whole_directory
from bert_tf.utils.settings import Settings


class TrainedClassifier:
    """A fine-tuned model. Its pickle holds the files that `save` writes.

    Args:
        job: with the model.
        tokenizer: of the model.
        batching: how texts are put together.
        precision: what the model computes in.
    """

    def __init__(self, job: Job, tokenizer, batching: Batching, precision: str):
        self._job, self._tokenizer, self._batching, self._precision = job, tokenizer, batching, precision
        self._files = {}

    def probabilities(self, texts: list[str], batch_size: int) -> np.ndarray:
        """Returns float64 [n, L], asking for `batch_size` texts at a time."""
        self._load()
        task, batching = self._job.task, self._batching
        rows = task.lay_out(self._tokenizer, as_examples(texts), batching.max_seq_length, False)
        return task.answers(self._job.outputs(batching.scoring(rows, batch_size)))

    def save(self, output_dir: str | os.PathLike):
        """Writes what `run_classifier` leaves: the weights, the task, the configuration, the tokenizer, the labels."""
        self._load()
        with whole_directory(output_dir) as folder:
            self._write(folder)

    def _write(self, folder):
        job, task = self._job, self._job.task
        save_description(folder, task.config, self._tokenizer, task.labels)
        save_task(folder, TrainedTask(task, ("text",), self._batching.max_seq_length))
        Store(folder).save(job.global_step, tf1.named(job.model.variables))

    def _load(self):
        """Builds a model that came out of a pickle, when it is first needed."""
        if self._job is not None:
            return
        with tempfile.TemporaryDirectory() as folder, precision_of(self._precision):
            for name, content in self._files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            description = load_description([folder])
            task, step = read_task(folder, description.config).task, StepConfig(use_xla=self._batching.use_xla)
            job = Job(task, RunConfig(folder, train_batch_size=1, num_train_steps=1, step=step))
            job.restore()
        self._job, self._tokenizer, self._files = job, description.tokenizer, {}

    def __getstate__(self):
        files = self._files
        if self._job is not None:
            with tempfile.TemporaryDirectory() as folder:
                self._write(folder)
                paths = sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file())
                files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
        return {"files": files, "batching": self._batching, "precision": self._precision}

    def __setstate__(self, state):
        self.__init__(None, None, state["batching"], state["precision"])
        self._files = state["files"]


def train(settings: Settings, texts: list[str], labels: list[str], label_ids: np.ndarray) -> TrainedClassifier:
    """Fine-tunes as `run_classifier --do_train` does.

    Args:
        settings: the flags of a run, all but its folder.
        texts: n of them.
        labels: the L names, in the order of the model's outputs.
        label_ids: of each text its label's place, int [n].

    Raises:
        ValueError: a setting does not fit the texts or the model.
    """
    use_xla = xla_by_default() if settings.use_xla == "auto" else settings.use_xla == "true"
    model = load_description([settings.init_checkpoint])
    model.check_length(settings.max_seq_length)
    options = {"label_smoothing": settings.label_smoothing, "lstm_units": settings.lstm_units}
    options |= {"class_weights": class_weights(settings.class_weights, labels, label_ids)}
    task = ClassificationTask(model.config, len(labels), labels=labels, **options)
    examples = as_examples(texts, [labels[place] for place in label_ids])
    rows = task.lay_out(model.tokenizer, examples, settings.max_seq_length, True)
    batching = batching_of(settings, use_xla)
    with tempfile.TemporaryDirectory() as folder, precision_of(settings.precision), seed_of_weights(settings.seed):
        num_layers = model.config.num_hidden_layers
        run = fine_tuning_config(settings.adopt({"output_dir": folder}), num_layers, rows, task.identity(), use_xla)
        job = Job(task, run)
        _train(job, batching.training(rows, run))
    return TrainedClassifier(job, model.tokenizer, batching, settings.precision)


def _train(job, batches):
    """Trains; Ctrl-C ends it as it ends other Python, and not the whole program as it ends a run."""
    try:
        job.train(batches)
    except Stopped as stopped:
        if stopped.signal != signal.SIGINT:
            raise
        raise KeyboardInterrupt from stopped
