"""Labelled texts to tokenized examples, and a classifier's answers to files."""

import dataclasses
import json

import numpy as np
from absl import logging

from bert_tf.data import glue, tables
from bert_tf.data.dataset import Tokenized
from bert_tf.data.tables import Examples
from bert_tf.files import atomic_open

_CHUNK = 10_000  # examples tokenized at a time: few enough to keep memory small


_ACTIONS = {"train": "train", "dev": "eval", "test": "predict"}  # split -> the flags --do_X and --X_file


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a run's texts are: a GLUE task's folder, or files.

    Attributes:
        task: row of `glue.TASKS`, or None for files.
        data_dir: the task's folder.
        files: split ("train", "dev", "test") -> path or None.
        header, text_columns, label_column: of the files, as `tables.read_table` takes them.
    """

    task: glue.GlueTask | None = None
    data_dir: str | None = None
    files: dict = dataclasses.field(default_factory=dict)
    header: bool = True
    text_columns: tuple = ("text",)
    label_column: str | int | None = "label"

    @property
    def metrics(self) -> tuple[str, ...] | None:
        """The task's official metrics; None for files."""
        return self.task.metrics if self.task else None

    @property
    def text_inputs(self) -> tuple[str, ...]:
        """What the texts of an example are called where they are asked for: one is `text`, two `text_a`, `text_b`."""
        columns = self.task.splits["train"].text_columns if self.task else self.text_columns
        return ("text",) if len(columns) == 1 else ("text_a", "text_b")

    def read(self, splits: list[str]) -> dict[str, Examples]:
        """Reads these splits; "test" without labels.

        Raises:
            ValueError: a split has no file, or the file is not as described.
        """
        return {split: self._read(split) for split in splits}

    def _read(self, split):
        if self.task:
            return glue.read_split(self.data_dir, self.task.name, split)
        action = _ACTIONS[split]
        if not self.files.get(split):
            raise ValueError(
                f"{'--do_eval and --keep_best' if split == 'dev' else f'--do_{action}'} must have examples. "
                f"Received no --{action}_file, and no --task_name with --data_dir."
            )
        label = None if split == "test" else self.label_column
        return tables.read_table(
            self.files[split], header=self.header, text_columns=self.text_columns, label_column=label
        )

    def labels(self, texts: dict[str, Examples], trained: list[str] | None = None) -> list[str]:
        """Returns the label names in the order of their ids: the task's, those of the training examples, or `trained`.

        Raises:
            ValueError: there is none of these.
        """
        if self.task:
            return list(self.task.labels)
        if "train" not in texts and trained is None:
            raise ValueError(
                "--do_eval and --do_predict must have a trained model. Received one without labels.txt; "
                "train it first, with --do_train."
            )
        return tables.label_list(texts["train"]) if "train" in texts else trained


def make_source(task_name: str | None, data_dir: str | None, files: dict, **columns) -> Source:
    """Returns the source that the flags describe.

    Raises:
        ValueError: an unknown task, or flags that contradict each other.
    """
    if not task_name:
        if data_dir:
            raise ValueError(f"--data_dir must come with --task_name. Received --data_dir={data_dir} alone.")
        return Source(files=files, **columns)
    if given := [path for path in files.values() if path]:
        raise ValueError(
            f"Examples must come from --task_name or from files. Received --task_name={task_name} and {given}."
        )
    if not data_dir:
        raise ValueError(f"--task_name must come with --data_dir. Received --task_name={task_name} alone.")
    return Source(task=glue.find_task(task_name), data_dir=data_dir)


def tokenize_splits(tokenizer, texts: dict[str, Examples], max_seq_length: int, labels: list[str]) -> dict:
    """Tokenizes every split, "test" without labels; see `tokenize_examples`."""
    return {
        split: tokenize_examples(tokenizer, examples, max_seq_length, None if split == "test" else labels)
        for split, examples in texts.items()
    }


def tokenize_examples(tokenizer, examples: Examples, max_seq_length: int, labels: list[str] | None = None) -> Tokenized:
    """Turns texts into rows `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, cut as google-research/bert cuts them.

    Args:
        tokenizer: a `Tokenizer`.
        examples: the texts, and label names where `labels` is given.
        max_seq_length: longest row.
        labels: all label names in the order of their ids; None leaves the labels out.

    Raises:
        ValueError: an example's label is not among `labels`.
    """
    label_ids = {} if labels is None else {"label_ids": np.asarray(tables.check_labels(examples, labels), np.int32)}
    parts = []
    for start in range(0, len(examples), _CHUNK):
        part = slice(start, start + _CHUNK)
        pieces = [tokenizer.tokenize(text[part]) for text in (examples.text_a, examples.text_b) if text is not None]
        parts.append(tokenizer.pack(*pieces, max_seq_length=max_seq_length))
    lengths = np.concatenate([part["input_ids"].row_lengths().numpy() for part in parts])
    flat = {n: np.concatenate([p[n].flat_values.numpy() for p in parts]) for n in ("input_ids", "segment_ids")}
    cut = int((lengths == max_seq_length).sum())
    logging.info(
        "%s: %d examples, %.1f pieces each; %d fill max_seq_length=%d and may have been cut.",
        *(examples.path, len(examples), lengths.mean(), cut, max_seq_length),
    )
    return Tokenized(flat, np.concatenate([[0], np.cumsum(lengths)]), label_ids)


def write_predictions(directory: str, examples: Examples, probabilities: np.ndarray, labels: list[str]):
    """Writes test_results.tsv (google-research/bert's: probabilities, tab separated) and predictions.jsonl, in order.

    Args:
        directory: where both go.
        examples: the n texts that were asked.
        probabilities: float [n, L].
        labels: the L names, in the order of the columns.
    """
    with atomic_open(f"{directory}/test_results.tsv") as file:
        for row in probabilities:
            file.write("\t".join(map(str, row)) + "\n")
    with atomic_open(f"{directory}/predictions.jsonl") as file:
        for i, row in enumerate(probabilities):
            second = examples.text_b and examples.text_b[i]
            texts = {"text": examples.text_a[i]} if second is None else {"text_a": examples.text_a[i], "text_b": second}
            answer = {"label": labels[int(row.argmax())], "probabilities": row.tolist(), "labels": labels}
            file.write(json.dumps({"id": examples.ids[i], **texts, **answer}, ensure_ascii=False) + "\n")
