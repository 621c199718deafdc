"""Small files of our making in the official formats of GLUE and XNLI, on texts that the tiny model can learn."""

import pathlib

from tests import tiny

PARSES = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
MNLI = f"index\tpromptID\tpairID\tgenre\t{PARSES}\tsentence1\tsentence2"
XNLI = f"language\tgold_label\t{PARSES}\tsentence1\tsentence2\tpromptID\tpairID\tgenre\tlabel1\tmatch"
STS_B = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
WORDS = ("contradiction", "entailment")


def _pairs(n, seed, names=("0", "1")):
    return [(text, "the film is it", label) for text, label in tiny.texts(n, seed, names)]


def _write(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    return tiny.write_tsv(path, [list(map(str, row)) for row in rows], header)


def mnli(folder, train=48, dev=10, test=5) -> pathlib.Path:
    """Five files; `neutral` is a label of the second development file alone."""
    folder = pathlib.Path(folder)
    for name, n, annotators in (("train", train, 1), ("dev_matched", dev, 5), ("dev_mismatched", dev + 1, 5)):
        rows = [
            (i, f"{i}", f"{i}n", "fiction", "( a )", "( b )", "(ROOT a)", "(ROOT b)", a, b, *[label] * (annotators + 1))
            for i, (a, b, label) in enumerate(_pairs(n, n, WORDS))
        ]
        if name == "dev_mismatched":
            rows[0] = (*rows[0][:-1], "neutral")
        _write(
            folder / f"{name}.tsv", "\t".join([MNLI, *(f"label{i + 1}" for i in range(annotators)), "gold_label"]), rows
        )
    for name, n in (("test_matched", test), ("test_mismatched", test + 2)):
        rows = [(9000 + i, "1", "1n", "x", "", "", "", "", a, b) for i, (a, b, _) in enumerate(_pairs(n, n))]
        _write(folder / f"{name}.tsv", MNLI, rows)
    return folder


def diagnostic(folder, n=6) -> pathlib.Path:
    _write(pathlib.Path(folder) / "diagnostic.tsv", "index\tsentence1\tsentence2",
           [(i, a, b) for i, (a, b, _) in enumerate(_pairs(n, n))])  # fmt: skip
    return pathlib.Path(folder)


def qqp(folder, train=2100, dev=10, test=5) -> pathlib.Path:
    """The training file has a question with a line end in it, as the official one does."""
    folder = pathlib.Path(folder)
    for name, n in (("train", train), ("dev", dev)):
        rows = [(i, 2 * i, 2 * i + 1, a, b, label) for i, (a, b, label) in enumerate(_pairs(n, n))]
        _write(folder / f"{name}.tsv", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", rows)
    with open(folder / "train.tsv", "a", encoding="utf-8") as file:
        file.write('7\t14\t15\tis it "good\n" film\n')
    rows = [(i, a, b) for i, (a, b, _) in enumerate(_pairs(test, test))]
    _write(folder / "test.tsv", "id\tquestion1\tquestion2", rows)
    return folder


def qnli(folder, train=48, dev=10, test=5) -> pathlib.Path:
    folder = pathlib.Path(folder)
    for name, n in (("train", train), ("dev", dev)):
        rows = [(i, *row) for i, row in enumerate(_pairs(n, n, ("not_entailment", "entailment")))]
        _write(folder / f"{name}.tsv", "index\tquestion\tsentence\tlabel", rows)
    rows = [(i, a, b) for i, (a, b, _) in enumerate(_pairs(test, test))]
    _write(folder / "test.tsv", "index\tquestion\tsentence", rows)
    return folder


def sts_b(folder, train=64, dev=12, test=5) -> pathlib.Path:
    folder = pathlib.Path(folder)
    for name, n in (("train", train), ("dev", dev), ("test", test)):
        rows = [
            (i, "main-news", "x", "2015", f"{i:04}", "none", "none", a, b, label)
            for i, (a, b, label) in enumerate(_pairs(n, n, ("0.400", "4.750")))
        ]
        labelled = name != "test"
        _write(folder / f"{name}.tsv", STS_B + "\tscore" * labelled, rows if labelled else [row[:-1] for row in rows])
    return folder


def xnli(folder, train=48, dev=10, test=5) -> pathlib.Path:
    """German among English; what contradicts is called `contradictory` in the training files."""
    folder = pathlib.Path(folder)
    for language in ("en", "de"):
        _write(folder / "multinli" / f"multinli.train.{language}.tsv", "premise\thypo\tlabel",
               _pairs(train, 1, ("contradictory", "entailment")))  # fmt: skip
    for name, n in (("dev", dev), ("test", test)):
        rows = [
            (language, label, "", "", "", "", a, b, i, i, "x", label, "True")
            for i, (a, b, label) in enumerate(_pairs(n, n, WORDS))
            for language in ("de", "en")
        ]
        _write(folder / f"xnli.{name}.tsv", XNLI, rows)
    return folder
