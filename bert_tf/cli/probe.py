"""Probe the layers of an encoder, or measure its attention heads.

    bert-tf inspect probe --model=demo/weights/minilm --output_dir=probe \\
        --train_file=eng.train --eval_file=eng.testa --tag_column=1
    bert-tf inspect probe --model=demo/weights/minilm --output_dir=probe \\
        --train_file=reviews.tsv --unit=text
    bert-tf inspect probe --model=demo/weights/minilm --output_dir=probe \\
        --train_file=eng.testa --heads

Trains a linear probe, and a control task with random labels, on each layer.
--heads measures which tokens each attention head attends to. Writes probe.json
and probe.html, or heads.json and heads.html, to --output_dir.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.data.dialect import Dialect
from bert_tf.utils.json_files import json_text
from bert_tf.utils.settings import UserSettings, flags_of, option

_FILE = "tagged words, as for `train tagger`, or with --unit=text labeled texts, as for `train classifier`"


@dataclasses.dataclass(frozen=True)
class ProbeSettings(Dialect, UserSettings):
    """What to probe, and the data to probe with."""

    GROUP: ClassVar[str] = "Data"

    model: str | None = option(
        None,
        "Encoder: a Hugging Face, sentence-transformers, KerasHub or bert_tf directory, or a TF1 checkpoint (its "
        "directory or prefix).",
        required=True, group="Model", essential=True, reads_model=True,
    )
    train_file: str | None = option(
        None,
        f"Training data of the probes: {_FILE}. With --heads: texts on which attention heads are measured.",
        required=True, essential=True,
    )
    eval_file: str | None = option(
        None,
        "Evaluation data of the probes, in the format of --train_file. Default: a fifth of --train_file, which is "
        "then not trained on.",
        essential=True,
    )
    output_dir: str | None = option(None, "Directory for the results.", required=True, group="Output", essential=True)
    unit: str = option("word", "What is labeled: each word or each text.", choices=("word", "text"))
    text_column: Sequence[str] = option(
        [],
        "Word column, by number from 0 (default: 0). With --unit=text: text column, by name or by number (default: "
        "text), or two for text pairs.",
        essential=True,
    )
    tag_column: int = option(-1, "Tag column, by number from 0; a negative number counts from the end.", essential=True)
    label_column: str = option("label", "With --unit=text: label column, by name or by number from 0.", essential=True)
    header: bool = option(True, "With --unit=text: read column names from line 1 of a .tsv or .csv file.")
    max_train_examples: int = option(
        20_000,
        "Maximum number of words, or texts, to train on, sampled with --seed.",
        low=1,
    )
    max_eval_examples: int = option(
        10_000,
        "Maximum number of words, or texts, to evaluate on, sampled with --seed.",
        low=1,
    )
    max_seq_length: int = option(
        128,
        "Maximum sequence length in tokens, including special tokens; longer texts are cut off.",
        low=3, group="Model", essential=True,
    )
    num_train_epochs: int | None = option(
        None,
        "Epochs of training the probes. Default: 5, or more if these are less than 3,000 steps of 64 examples.",
        low=1, group="Training", essential=True,
    )
    seed: int = option(0, "Random seed of all sampling: examples, the control task's labels, the order of training.")
    heads: bool = option(
        False,
        "Measure what each attention head attends to instead; labels are not read.",
        group="What to do",
        excludes=(
            "eval_file", "max_train_examples", "max_eval_examples", "num_train_epochs", "tag_column", "label_column",
            "max_seq_length",
        ),
    )
    max_texts: int = option(500, "With --heads: maximum number of texts to measure on, sampled with --seed.", low=1)


SETTINGS = ProbeSettings
FLAGS = flags_of(SETTINGS)
_OF_TEXTS = ("label_column", "header", "separator")
_OF_WORDS = ("tag_column",)
_HELD_OUT = 0.2  # of the only file


def main(settings: ProbeSettings):
    """Writes what was found, and prints the table."""
    from bert_tf.checkpoints.loading import load
    from bert_tf.utils.files import write_text

    _check(settings)
    train = _read(settings, settings.train_file)
    test = None if settings.heads or not settings.eval_file else _read(settings, settings.eval_file)
    bert = load(settings.model)
    os.makedirs(settings.output_dir, exist_ok=True)
    name, found, lines, page = (_heads if settings.heads else _probes)(settings, bert, train, test)
    for ending, text in (("json", json_text(found, indent=2, ensure_ascii=False) + "\n"), ("html", page)):
        write_text(os.path.join(settings.output_dir, f"{name}.{ending}"), text)
    for line in lines:
        print(line)
    print(f"Report: {settings.output_dir}/{name}.html")


def _check(settings):
    by_words = settings.unit == "word"
    for name in _OF_TEXTS if by_words else _OF_WORDS:
        if name in settings.given:
            other = "text" if by_words else "word"
            raise ValueError(f"--{name} requires --unit={other}. Add --unit={other} or remove --{name}.")
    if "max_texts" in settings.given and not settings.heads:
        raise ValueError("--max_texts requires --heads. Add --heads or remove --max_texts.")
    columns = settings.text_column
    if by_words and not (len(columns) < 2 and all(each.lstrip("-").isdecimal() for each in columns)):
        raise ValueError(
            f"--text_column must be a single number for words; got {','.join(columns)}. Pass one number, or add "
            "--unit=text."
        )


def _read(settings, path):
    from bert_tf.data.dialect import Dialect
    from bert_tf.interpret.probing.examples import read_labelled_texts, read_tagged_words

    if settings.unit == "word":
        tag = None if settings.heads else settings.tag_column
        column = int(settings.text_column[0]) if settings.text_column else 0
        return read_tagged_words(path, column, tag, settings.encoding)
    dialect = Dialect(settings.separator, settings.encoding)
    label = None if settings.heads else settings.label_column
    return read_labelled_texts(path, settings.text_column or ["text"], label, settings.header, dialect)


def _probes(settings, bert, train, test):
    """Returns the file's name, results, lines and page."""
    from bert_tf.interpret.probing import job, pages

    files = {"train": train.path, "eval": test.path if test else f"{100 * _HELD_OUT:g}% of {train.path}"}
    if test is None:
        if len(train) < 2:
            raise ValueError(f"{train.path} has a single text, but evaluation needs another. Add --eval_file.")
        train, test = train.halves(_HELD_OUT, settings.seed)
    train = train.draw(settings.max_train_examples, settings.seed)
    test = test.draw(settings.max_eval_examples, settings.seed)
    logging.info("Training on %s %ss, evaluating on %s.", f"{train.count:,}", settings.unit, f"{test.count:,}")
    length = min(settings.max_seq_length, bert.config.max_length)
    options = job.ProbeOptions(length, settings.seed, settings.output_dir, settings.num_train_epochs)
    found = {
        "model": settings.model,
        "unit": settings.unit,
        "files": files,
        **job.run_probing(bert, train, test, options),
    }
    return "probe", found, pages.probe_lines(found), pages.probe_page(found)


def _heads(settings, bert, texts, _):
    from bert_tf.interpret.probing import head_measures, pages

    chosen = texts.sample(settings.max_texts, settings.seed)
    measures = head_measures.measure_heads(bert, chosen.texts)
    read = [("model", settings.model), ("texts", f"{len(chosen):,}", f"of {len(texts):,} in {texts.path}")]
    values = {name: [[None if each != each else each for each in row] for row in layers.tolist()]
              for name, layers in measures.items()}  # fmt: skip
    found = {"model": settings.model, "file": texts.path, "texts": len(chosen), "measures": values}
    return "heads", found, pages.heads_lines(measures), pages.heads_page(measures, read)
