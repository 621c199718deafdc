"""Small files under the names that the documentation has: tables, corpora, GLUE."""

import csv

import numpy as np

from bert_tf.data import glue_tasks
from tests import tiny
from tests.tasks.embedding import support as embedding
from tests.tasks.multiple_choice import support as multiple_choice
from tests.tasks.question_answering import support as squad
from tests.tasks.reranking import support as reranking
from tests.tasks.tagging import support as tagging

ROWS = 40  # more than a batch
TABLE_FLAGS = ("train_file", "eval_file", "predict_file", "input_file", "test_file")


def vocabulary(path):
    path.write_text("".join(f"{piece}\n" for piece in tiny.VOCAB), encoding="utf-8")


def corpus(path):
    """Writes a file of documents, some of whose words are often together; or a folder with it."""
    if not path.suffix:
        path.mkdir(parents=True)
        path = path / "a.txt"
    rng = np.random.default_rng(sum(map(ord, path.name)))
    words = [*tiny.FILL, *tiny.GOOD, *tiny.BAD]
    words += [f"{word}s" for word in words]  # two pieces each for the tiny models
    documents = []
    for _ in range(60):
        places = zip(rng.integers(len(words), size=6), rng.integers(4, 12, size=6), strict=True)
        documents.append("\n".join(" ".join((words * 2)[start : start + n]) + " ." for start, n in places))
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")


def texts(path, settings):
    texts = [text for text, _ in tiny.texts(ROWS)]
    if path.stem == "passages":  # the second texts of `pairs`, whatever flag names their file
        texts = [second for number in range(len(TABLE_FLAGS)) for _, second in embedding.pairs(ROWS, number)]
    if path.suffix == ".txt":
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    else:
        columns = settings.get("text_column") or ["text"]
        more = [*filter(None, [settings.get("id_column")]), *settings.get("keep_columns", ())]
        letter = "d" if settings.get("id_column") == "_id" else ""  # as in the qrels of `of_runs`
        rows = [(text,) * len(columns) + (f"{letter}{number}",) * len(more) for number, text in enumerate(texts)]
        write_table(path, [*columns, *more], None, rows)


def rows_for(columns, name, scores=False):
    """Returns rows of texts and a label, others for each of `TABLE_FLAGS`."""
    labels = ("0.5", "4.5") if scores else ("0", "1")
    rows = tiny.texts(ROWS, TABLE_FLAGS.index(name), labels)
    return [(*[text] * columns, label) for text, label in rows]


def write_table(path, columns, label, rows, header=True, separator=None):
    names = [*columns, label] if label is not None else list(columns)
    if path.suffix == ".jsonl":
        tiny.write_jsonl(path, rows, names)
    elif path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(dict(zip(names, zip(*rows, strict=True), strict=True))), path)
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            usual = "\t" if path.suffix == ".tsv" else ","
            writer = csv.writer(file, delimiter=separator or usual, lineterminator="\n")
            writer.writerows([names] * header + rows)


def classified(path, settings, name):
    columns, label = settings.text_column or ["text"], settings.label_column or "label"
    scores = settings.get("problem_type") == "regression"
    if named := settings.get("label_columns"):
        rows = [(*texts, *label * len(named)) for *texts, label in rows_for(len(columns), name)]
        write_table(path, [*columns, *named], None, rows)
        return
    write_table(path, columns, label, rows_for(len(columns), name, scores), settings.header is not False)


def of_users(path, settings, name):
    """Writes a table with a column `user`, which some commands of a page that has several of it group by."""
    columns, separator = [*settings.text_column, "user"], settings.get("separator")
    write_table(path, columns, settings.label_column, rows_for(2, name), separator=separator)


def questions(path, settings, name):
    version_2 = settings.get("version_2_with_negative")
    rows = squad.questions(ROWS, TABLE_FLAGS.index(name), 0.7 if version_2 else 1.0)
    squad.write(path, rows, version_2=version_2)


def tagged(path, settings, name):
    sentences = tagging.sentences(ROWS, TABLE_FLAGS.index(name))
    (tagging.write_spans if path.suffix == ".jsonl" else tagging.write_columns)(path, sentences)


def choices(path, settings, name):
    rows = multiple_choice.questions(ROWS, TABLE_FLAGS.index(name))
    if path.suffix == ".csv":
        multiple_choice.write_swag(path, rows, with_labels=name != "predict_file")
    else:
        multiple_choice.write_jsonl(path, rows)


def queries(path, settings, name):
    rows = reranking.queries(ROWS, TABLE_FLAGS.index(name))
    if path.suffix == ".run":
        lines = [f"q{query}\td{document}\t{document + 1}\n" for query in range(3) for document in range(3)]
        path.write_text("".join(lines), encoding="utf-8")
    else:
        reranking.write_jsonl(path, rows)


OF_RUNS = ("queries_file", "documents_file", "qrels_file")  # of the run that `queries` writes


def of_runs(path):
    """Writes the texts of queries or of documents, or qrels, as the file or its folder is called."""
    letter = path.name[0]  # of queries.tsv; collection.tsv has documents
    rows = [(f"{'q' if letter == 'q' else 'd'}{n}", text) for n, (text, _) in enumerate(tiny.texts(3))]
    if path.suffix == ".jsonl":
        tiny.write_jsonl(path, rows, ("_id", "text"))
        return
    lines = [f"{name}\t{text}\n" for name, text in rows]
    if path.name.startswith("qrels") or path.parent.name == "qrels":
        lines = [f"q{query} 0 d{query} 1\n" for query in range(3)]
    path.write_text("".join(lines), encoding="utf-8")


def pairs(path, settings, name):
    write_table(path, settings.text_column, None, embedding.pairs(ROWS, TABLE_FLAGS.index(name)), settings.header)


def of_probe(path, settings, name):
    """Writes words with tags, a part of speech beside the one that comes last, or texts with labels."""
    if settings.unit == "text":
        classified(path, settings, name)
    else:
        sentences = tagging.sentences(ROWS, TABLE_FLAGS.index(name))
        parts = [[(f"{word} {'VB' if tag == 'O' else 'NN'}", tag) for word, tag in each] for each in sentences]
        tagging.write_columns(path, parts)


TABLES = {
    "probe": of_probe,
    **dict.fromkeys(("run_classifier", "check_data", "find_label_errors"), classified),
    **dict.fromkeys(("split", "clean_data"), of_users),
    "run_squad": questions,
    "run_tagger": tagged,
    "run_multiple_choice": choices,
    "run_embedder": pairs,
    "run_reranker": queries,
}


def write_all_of_glue(folder, names):
    """Writes a folder with the tasks of GLUE that are among the names."""
    for name in names:
        if name in glue_tasks.TASKS:
            write_glue(folder / glue_tasks.TASKS[name].directory, name)


def write_glue(folder, name):
    """Writes the files of a task of GLUE, as `glue_tasks.TASKS` describes them."""
    task = glue_tasks.TASKS[name]
    for place, split in enumerate(task.splits.values()):
        columns = [*split.text_columns, split.label_column, split.id_column]
        named = [column for column in columns if column is not None]
        width = max(named) + 1 if not split.header else 0
        rows = []
        for number, (text, label) in enumerate(tiny.texts(ROWS, place)):
            values = {column: text for column in split.text_columns}
            answers = ("0.500", "4.500") if not task.labels else task.labels
            values |= {split.label_column: answers[int(label)], split.id_column: str(number)}
            rows.append([values.get(column, "x") for column in (named if split.header else range(width))])
        folder.mkdir(parents=True, exist_ok=True)
        tiny.write_tsv(folder / split.file, rows, "\t".join(named) if split.header else None)
