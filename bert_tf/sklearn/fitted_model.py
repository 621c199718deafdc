"""A fine-tuned model in memory: its outputs for examples, saving and pickling."""

import os
import pathlib
import tempfile

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.loading import load_description, save_description
from bert_tf.export.precision import dtype_policy
from bert_tf.tasks.base import Examples, FineTuningTask, SplitPredictions, TrainedTask
from bert_tf.tasks.registry import read_task, save_task
from bert_tf.tokenization.token_counter import TokenCounter
from bert_tf.training.batching import BatchSettings
from bert_tf.training.run_config import RunConfig
from bert_tf.training.step import StepConfig
from bert_tf.training.trainer import Trainer
from bert_tf.utils.files import whole_directory
from bert_tf.utils.token_counts import TokenCountLog


class FittedModel:
    """A fine-tuned model. Its pickle contains the files that `save` writes.

    Args:
        trainer: with the model.
        tokenizer: tokenizer of the model.
        text_inputs: as in `TrainedTask`.
        batching: how examples are batched.
        precision: the precision of the model, one of `names.PRECISIONS`.
    """

    def __init__(
        self, trainer: Trainer, tokenizer, text_inputs: tuple[str, ...], batching: BatchSettings, precision: str
    ):
        self._trainer, self._tokenizer, self.text_inputs = trainer, tokenizer, text_inputs
        self._batching, self._precision = batching, precision
        self._files = {}

    @property
    def task(self) -> FineTuningTask:
        """The task that it was trained for."""
        self._load()
        return self._trainer.task

    @property
    def step(self) -> int:
        """The training step of its weights."""
        self._load()
        return self._trainer.global_step

    def outcome(self, examples: Examples, batch_size: int, with_targets: bool = False) -> SplitPredictions:
        """Returns the outputs for examples, `batch_size` at a time; `with_targets`: to be scored."""
        self._load()
        counter, length = TokenCounter(self._tokenizer), self._batching.max_seq_length
        encoded = self.task.encode_examples(counter, examples, length, with_targets)
        TokenCountLog(f"{len(examples)} examples", length).add(counter.counts().numpy())
        outputs = self._trainer.outputs(self._batching.scoring(encoded, batch_size))
        return SplitPredictions("dev" if with_targets else "test", examples, encoded, outputs, None)

    def save(self, output_dir: str | os.PathLike):
        """Saves the files that the fine-tuning commands write: weights, task, configuration, tokenizer, labels."""
        self._load()
        with whole_directory(output_dir) as folder:
            self._write(folder)

    def _write(self, folder):
        trainer, task = self._trainer, self._trainer.task
        save_description(folder, task.config, self._tokenizer, task.labels)
        save_task(folder, TrainedTask(task, self.text_inputs, self._batching.max_seq_length))
        CheckpointManager(folder).save(trainer.global_step, tf1.named(trainer.model.variables))

    def _load(self):
        """Builds an unpickled model when it is first needed."""
        if self._trainer is not None:
            return
        with tempfile.TemporaryDirectory() as folder, dtype_policy(self._precision):
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
        kept = {"text_inputs": self.text_inputs, "batching": self._batching, "precision": self._precision}
        return kept | {"files": files}

    def __setstate__(self, state):
        self.__init__(None, None, state["text_inputs"], state["batching"], state["precision"])
        self._files = state["files"]
