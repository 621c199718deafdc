"""Probe the layers of an encoder, or measure its attention heads.

    bert-tf probe --model=uncased_L-12_H-768_A-12 --output_dir=probe \\
        --train_file=eng.train --eval_file=eng.testa --tag_column=1
    bert-tf probe --model=uncased_L-12_H-768_A-12 --output_dir=probe \\
        --train_file=reviews.tsv --unit=text
    bert-tf probe --model=uncased_L-12_H-768_A-12 --output_dir=probe \\
        --train_file=eng.testa --heads

Trains a linear probe, and a control task with random labels, on each layer.
--heads measures which tokens each attention head attends to. Writes probe.json
and probe.html, or heads.json and heads.html, to --output_dir.
"""

import os

from absl import logging

from bert_tf.utils.json_files import json_text
from bert_tf.utils.settings import Flag

_FILE = ("Words with tags, as run_tagger reads them, or with --unit=text texts with labels, as run_classifier reads "
         "them")  # fmt: skip

FLAGS = (
    Flag(
        "model",
        None,
        "The encoder: a Hugging Face, sentence-transformers, KerasHub or bert_tf directory, or a TF1 "
        "checkpoint's prefix.",
        required=True,
    ),
    Flag(
        "train_file", None, f"{_FILE}, to learn from; with --heads the texts that heads are measured on.", required=True
    ),
    Flag(
        "eval_file", None, "The same, to be right on; default: a fifth of --train_file, which then is not learned from."
    ),
    Flag("output_dir", None, "Where the results go.", required=True),
    Flag("unit", "word", "What has labels: each word, or each text.", choices=("word", "text")),
    Flag(
        "text_column",
        [],
        "Column of the words, by number from 0, default 0; with --unit=text of the text, by name "
        "or number, default: text; two, with a comma between them, for pairs.",
        "list",
    ),
    Flag("tag_column", -1, "Column of the tag, by number from 0; a negative one counts from the end.", "integer"),
    Flag("label_column", "label", "With --unit=text: column of the label, by name or by number from 0."),
    Flag("header", True, "With --unit=text: whether line 1 of a .tsv or .csv file names its columns.", "bool"),
    Flag(
        "max_train_examples",
        20_000,
        "Words, or texts, to learn from at most, drawn at random by --seed.",
        "integer",
        low=1,
    ),
    Flag("max_eval_examples", 10_000, "The same, to be right on.", "integer", low=1),
    Flag(
        "max_seq_length",
        128,
        "Longest sequence in tokens, special tokens included; what is longer is cut.",
        "integer",
        low=3,
    ),
    Flag(
        "num_train_epochs",
        None,
        "Epochs of training the probes; default: 5, or more where these are less than 3,000 steps of 64 examples.",
        "integer",
        low=1,
    ),
    Flag("seed", 0, "Of all draws: which examples, the control's labels, the order of training.", "integer"),
    Flag("heads", False, "Measure what each attention head looks at instead; labels are not read.", "bool"),
    Flag("max_texts", 500, "With --heads: texts to measure on at most, drawn at random by --seed.", "integer", low=1),
)
_OF_TEXTS = ("label_column", "header")
_OF_WORDS = ("tag_column",)
_OF_PROBES = ("eval_file", "max_train_examples", "max_eval_examples", "num_train_epochs", "tag_column", "label_column",
              "max_seq_length")  # fmt: skip
_HELD_OUT = 0.2  # of the only file


def main(settings):
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
    print(f"The page: {settings.output_dir}/{name}.html")


def _check(settings):
    by_words = settings.unit == "word"
    for name in _OF_TEXTS if by_words else _OF_WORDS:
        if name in settings.given:
            other = "text" if by_words else "word"
            raise ValueError(f"--{name} must come with --unit={other}. Received it without; add that, or leave it out.")
    for name in _OF_PROBES if settings.heads else ("max_texts",):
        if name in settings.given:
            raise ValueError(
                f"--{name} must come {'without' if settings.heads else 'with'} --heads. Received it "
                f"{'with' if settings.heads else 'without'}; leave one of them out."
            )
    columns = settings.text_column
    if by_words and not (len(columns) < 2 and all(each.lstrip("-").isdecimal() for each in columns)):
        raise ValueError(
            f"--text_column must be one number for words. Received: {','.join(columns)}; correct it, or add "
            "--unit=text."
        )


def _read(settings, path):
    from bert_tf.interpret.probing.job import read_labelled_texts, read_tagged_words

    if settings.unit == "word":
        tag = None if settings.heads else settings.tag_column
        return read_tagged_words(path, int(settings.text_column[0]) if settings.text_column else 0, tag)
    label = None if settings.heads else settings.label_column
    return read_labelled_texts(path, settings.text_column or ["text"], label, settings.header)


def _probes(settings, bert, train, test):
    """Returns the file's name, results, lines and page."""
    from bert_tf.interpret.probing import job, pages

    files = {"train": train.path, "eval": test.path if test else f"{100 * _HELD_OUT:g} % of {train.path}"}
    if test is None:
        if len(train) < 2:
            raise ValueError(f"{train.path} must hold two texts, one to be right on. Received one; add --eval_file.")
        train, test = train.halves(_HELD_OUT, settings.seed)
    train = train.draw(settings.max_train_examples, settings.seed)
    test = test.draw(settings.max_eval_examples, settings.seed)
    logging.info("Learning from %s %ss, measuring on %s.", f"{train.count:,}", settings.unit, f"{test.count:,}")
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
    from bert_tf.interpret.probing import pages, probe

    chosen = texts.sample(settings.max_texts, settings.seed)
    measures = probe.measure_heads(bert, chosen.texts)
    read = [("model", settings.model), ("texts", f"{len(chosen):,}", f"of {len(texts):,} in {texts.path}")]
    values = {name: [[None if each != each else each for each in row] for row in layers.tolist()]
              for name, layers in measures.items()}  # fmt: skip
    found = {"model": settings.model, "file": texts.path, "texts": len(chosen), "measures": values}
    return "heads", found, pages.heads_lines(measures), pages.heads_page(measures, read)
