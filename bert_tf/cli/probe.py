"""Says what each layer of an encoder knows, by linear probes with a control task, and what each head looks at.

    bert-tf probe --model=uncased_L-12_H-768_A-12 --train_file=eng.train --eval_file=eng.testa --tag_column=1 \\
        --output_dir=probe
    bert-tf probe --model=uncased_L-12_H-768_A-12 --train_file=reviews.tsv --unit=text --output_dir=probe
    bert-tf probe --model=uncased_L-12_H-768_A-12 --train_file=eng.testa --heads --output_dir=probe

Writes probe.json and probe.html, with --heads heads.json and heads.html, into --output_dir. All flags: --help;
docs/probe.md.
"""

import os

from absl import logging

from bert_tf.cli.flags.probing import PROBE
from bert_tf.utils.json_files import json_text

FLAGS = PROBE

_OF_TEXTS = ("label_column", "header")
_OF_WORDS = ("tag_column",)
_OF_PROBES = ("eval_file", "max_train_examples", "max_eval_examples", "num_train_epochs", "tag_column", "label_column",
              "max_seq_length")  # fmt: skip
_HELD_OUT = 0.2  # of the only file


def main(settings):
    """Writes what was found, and prints the table."""
    from bert_tf.checkpoints.model_files import load
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
    from bert_tf.interpret.probing.examples import read_texts, read_words

    if settings.unit == "word":
        tag = None if settings.heads else settings.tag_column
        return read_words(path, int(settings.text_column[0]) if settings.text_column else 0, tag)
    label = None if settings.heads else settings.label_column
    return read_texts(path, settings.text_column or ["text"], label, settings.header)


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
    options = job.Options(length, settings.seed, settings.output_dir, settings.num_train_epochs)
    found = {"model": settings.model, "unit": settings.unit, "files": files, **job.run(bert, train, test, options)}
    return "probe", found, pages.probe_lines(found), pages.probe_page(found)


def _heads(settings, bert, texts, _):
    from bert_tf.interpret.probing import heads, pages

    chosen = texts.sample(settings.max_texts, settings.seed)
    measures = heads.measure(bert, chosen.texts)
    read = [("model", settings.model), ("texts", f"{len(chosen):,}", f"of {len(texts):,} in {texts.path}")]
    values = {name: [[None if each != each else each for each in row] for row in layers.tolist()]
              for name, layers in measures.items()}  # fmt: skip
    found = {"model": settings.model, "file": texts.path, "texts": len(chosen), "measures": values}
    return "heads", found, pages.heads_lines(measures), pages.heads_page(measures, read)
