"""Each trap in a file that has it, and in none that has not."""

import dataclasses
import gzip
import os
import re

import pytest

from bert_tf.data import label_checks, tables
from bert_tf.data.checked_examples import CheckedExamples, TableLayout
from bert_tf.data.columns import NAME, number
from bert_tf.data.dialect import Dialect
from bert_tf.data.example_checks import check_samples
from bert_tf.data.token_checks import check_unknown_tokens
from bert_tf.utils.token_counts import TokenCounts

NAMES = ("balance", "card", "refund", "limit")
# Sentences that all differ, and say nothing.
WORDS = [f"my {noun} is {state} since {day}" for noun in ("card", "bill", "phone", "order", "account") for state in
         ("late", "lost", "wrong", "open") for day in ("monday", "friday")]  # fmt: skip
ROWS = [(text, NAMES[i % 4]) for i, text in enumerate(WORDS)]
HEADER = ("text", "label")


def write(path, rows, separator="\t", encoding="utf-8"):
    """Writes rows as they are, without quotes."""
    data = "".join(f"{separator.join(row)}\n" for row in rows).encode(encoding)
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def sample(path, header=True, columns=("text",), label="label", kind=NAME):
    """Reads a table as a classifier does."""
    examples = tables.read_table(path, header=header, text_columns=columns, label_column=label, label=kind)
    names = dict(zip(("text_a", "text_b"), (examples.text_a, examples.text_b), strict=False))
    names = {name: texts for name, texts in names.items() if texts is not None}
    labels = examples.labels if kind is NAME else None
    return CheckedExamples(
        examples.path, examples.where, names, examples.labels, labels, table=TableLayout(header, columns, label)
    )


def kinds(train, dev=None):
    """Returns {kind: finding} of what is found."""
    found = check_samples({"train": train} | ({"dev": dev} if dev else {}))
    assert len({(finding.kind, finding.path) for finding in found}) == len(found), found
    return {finding.kind: finding for finding in found}


def labelled(tmp_path, rows):
    """Returns what is found in a training file of texts and labels."""
    return list(kinds(sample(write(tmp_path / "a.tsv", [HEADER, *rows]))).values())


def test_nothing_is_found_in_clean_files(tmp_path):
    train = sample(write(tmp_path / "train.tsv", [HEADER, *ROWS[:24]]))
    dev = sample(write(tmp_path / "dev.tsv", [HEADER, *ROWS[24:]]))
    assert check_samples({"train": train, "dev": dev, "test": dev}) == []


def test_lists_where_there_should_be_one_label_name_the_kind_of_problem(tmp_path):
    train = sample(write(tmp_path / "train.tsv", [HEADER, *ROWS]))
    for label, is_list in (("['film', 'music']", True), (["film", "music"], True), (3.5, False)):
        (found,) = check_samples({"train": dataclasses.replace(train, bad_labels={7: label})})
        assert found.kind == "bad_labels" and ("problem_type=multi_label" in found.remedy) is is_list


def test_labels_that_differ_in_spaces_and_case_alone(tmp_path):
    rows = [HEADER, *ROWS, *((f"again {text}", f" {label.title()}") for text, label in ROWS[:12])]
    (found,) = kinds(sample(write(tmp_path / "a.tsv", rows))).values()
    assert (found.kind, found.count, found.is_warning) == ("label_spellings", 4, True)
    start = "8 labels, but only 4 if spaces and letter case are ignored: 'balance' 10 and ' Balance' 3, 'card' 10 and"
    assert str(found).startswith(f"{tmp_path}/a.tsv: {start}")
    assert str(found).endswith("(line 42, line 43, line 44, line 45, line 46, ...); give each one spelling.")
    assert len(found.places) == 12


@pytest.mark.parametrize("header", [("text", "label"), ("Review", "stars"), ("Satz", "Thema")])
def test_warns_of_a_header_read_as_an_example(tmp_path, header):
    found = kinds(sample(write(tmp_path / "a.tsv", [header, *ROWS]), False, (0,), 1))
    assert set(found) == {"header_as_row", "rare_labels"}
    text = str(found["header_as_row"])
    assert f"the first row, {header[0]!r} and {header[1]!r}, seems to be a header (line 1)" in text
    assert text.endswith("remove `header=false`.")


def test_warns_of_an_example_read_as_the_header(tmp_path):
    (found,) = kinds(sample(write(tmp_path / "a.csv", ROWS, ","), True, (0,), 1)).values()
    assert (found.kind, found.places) == ("row_as_header", ("line 1",))
    assert str(found).endswith("as the header (line 1); set `header=false`.")
    rows = [(text, str(i % 4)) for i, text in enumerate(["late", "lost", *WORDS])]
    assert set(kinds(sample(write(tmp_path / "short.csv", rows, ","), True, (0,), 1))) == {"row_as_header"}
    assert not kinds(sample(write(tmp_path / "named.csv", [HEADER, *ROWS], ","), True, (0,), 1))


def test_warns_of_nearly_as_many_labels_as_rows(tmp_path):
    rows = [(text, str(i)) for i, (text, _) in enumerate(ROWS)]
    (found,) = kinds(sample(write(tmp_path / "a.tsv", [HEADER, *rows]))).values()
    assert (found.kind, found.count) == ("many_labels", 40)
    assert str(found).endswith("check `label_column`, or set `problem_type=regression` if they are scores.")
    small = [(text, f"{number}e-5") for text, number in rows]
    assert "regression" in str(kinds(sample(write(tmp_path / "c.tsv", [HEADER, *small])))["many_labels"])
    named = [(text, f"n{number}") for text, number in rows]
    assert str(*kinds(sample(write(tmp_path / "b.tsv", [HEADER, *named]))).values()).endswith("check `label_column`.")


def test_one_label_for_all_and_no_label_at_all(tmp_path):
    rows = [HEADER, *((text, "card") for text, _ in ROWS)]
    (found,) = kinds(sample(write(tmp_path / "a.tsv", rows))).values()
    assert (found.kind, found.count, found.is_warning) == ("one_label", 40, True)
    assert "label 'card' in all 40 examples; training will not start" in str(found)
    texts = {"text": [text for text, _ in ROWS]}
    several = CheckedExamples(str(tmp_path / "a.tsv"), str, texts, labels=[()] * 40, table=None)
    assert [each.kind for each in label_checks.check_training_labels(several)] == ["no_labels"]
    yes_or_no = dataclasses.replace(several, labels=[("a",)] * 40)
    assert not list(label_checks.check_training_labels(yes_or_no))


def test_labels_1_and_1_0_are_two_spellings_of_one(tmp_path):
    rows = [HEADER, *((text, ("1", "2", "1.0", "2.5")[i % 4]) for i, (text, _) in enumerate(ROWS))]
    (found,) = kinds(sample(write(tmp_path / "a.tsv", rows))).values()
    assert (found.kind, found.count) == ("label_spellings", 1)
    assert "4 labels, but only 3 if spaces and letter case are ignored and 1.0 is 1: '1' 10 and '1.0' 10" in str(found)


def test_mixed_words_of_truth_are_spellings_and_bars_separate_labels(tmp_path):
    rows = [(f"text {n}", label) for n, label in enumerate(["True", "1", "yes", "0", "no", "False"] * 4)]
    (found,) = labelled(tmp_path, rows)
    assert found.kind == "label_spellings" and "6 labels, but only 2" in found.what
    assert "ignored, and true and yes are 1: " in found.what
    assert not labelled(tmp_path, [(f"text {n}", label) for n, label in enumerate(["yes", "no"] * 6)])
    (found,) = labelled(tmp_path, [(f"text {n}", label) for n, label in enumerate(["film", "art", "art|film"] * 4)])
    assert (found.kind, found.count) == ("several_labels", 1) and "set `problem_type=multi_label`" in found.remedy


def test_lists_in_place_of_texts(tmp_path):
    (found,) = labelled(tmp_path, [(str(["text", str(n)]), "ab"[n % 2]) for n in range(12)])
    assert (found.kind, found.count, found.is_warning) == ("list_texts", 12, True) and "['text', '0']" in found.what


def test_quotes_of_csv_in_a_tsv_file(tmp_path, caplog):
    rows = [(f'"He said ""no {n}"""', "ab"[n % 2]) if n % 2 else (f"text {n}", "ab"[n % 2]) for n in range(12)]
    with caplog.at_level("WARNING"):
        (found,) = labelled(tmp_path, rows)
    assert (found.kind, found.count, found.is_warning, found.places[0]) == ("quoted_fields", 6, True, "line 3")
    assert found.text.endswith("; rename the file to .csv and set `separator=tab`, or write it again without quotes.")
    (logged,) = [record.getMessage() for record in caplog.records]
    assert logged.startswith(f"{tmp_path}/a.tsv: 6 of 13 rows have fields in double quotes, as in .csv, ")
    named = (tmp_path / "a.tsv").rename(tmp_path / "a.csv")
    texts = tables.read_table(named, dialect=Dialect("tab")).text_a
    assert texts[:2] == ["text 0", 'He said "no 1"']
    for stray in (('"a" b ""c""', "a"), ('"open', "a")):  # as in GLUE, whose quotes mean nothing
        assert not labelled(tmp_path, [*rows, stray])
    assert not labelled(tmp_path, [*ROWS[:23], ('"quoted"', ROWS[23][1])])
    every = write(tmp_path / "b.tsv", [(f'"text {n}"', f'"{n % 2}"') for n in range(12)])
    assert "quoted_fields" in kinds(sample(every, header=False, columns=(0,), label=1))
    with pytest.raises(ValueError, match="seem to be in double quotes, as in .csv: rename the file to .csv and"):
        sample(write(tmp_path / "c.tsv", [('"text"', '"label"'), ('"a"', '"b"')]))


def test_labels_with_exponents_are_numbers_of_their_own(tmp_path):
    rows = [HEADER, *((text, ("1.5e1", "1.5e10", "1e2", "nan")[i % 4]) for i, (text, _) in enumerate(ROWS))]
    assert not kinds(sample(write(tmp_path / "a.tsv", rows)))
    numbers = {"3": True, " -0.5 ": True, "1e-5": True, ".5E+3": True, "nan": False, "-inf": False, "1_0": False,
               "1e999": False, "": False, "1e": False}  # fmt: skip
    assert {text: label_checks.is_number(text) for text in numbers} == numbers


def test_labels_with_hardly_an_example(tmp_path):
    rows = [HEADER, *ROWS, ("where is it", "shipping"), ("is it there", "shipping"), ("good day", "greeting")]
    (found,) = kinds(sample(write(tmp_path / "a.tsv", rows))).values()
    assert (found.kind, found.count) == ("rare_labels", 2)
    assert found.places == ("line 42", "line 43", "line 44")
    assert "2 of 6 labels with 2 examples or fewer: 'greeting' 1, 'shipping' 2 (" in str(found)


def test_finds_empty_texts(tmp_path):
    rows = [HEADER, *ROWS[:20], ("", "card"), *ROWS[20:], (" \u3000 ", "limit")]
    found = kinds(sample(write(tmp_path / "a.tsv", rows)))
    assert found["empty_texts"].places == ("line 22", "line 43") and found["empty_texts"].is_warning
    assert "2 of 42 examples (4.8%) have an empty text_a (" in str(found["empty_texts"])


def test_pairs_have_two_texts_that_may_be_empty(tmp_path):
    rows = [("one", "other", "label"), *((text, text.upper(), label) for text, label in ROWS), ("a", "", "card")]
    (found,) = kinds(sample(write(tmp_path / "a.tsv", rows), columns=("one", "other"))).values()
    assert (found.kind, found.places) == ("empty_texts", ("line 42",)) and "an empty text_b" in str(found)


def test_duplicates_are_noted_and_warned_of_where_they_are_many(tmp_path):
    rows = [HEADER, *ROWS, (f"  {ROWS[3][0].title().replace(' ', '  ', 1)} ", ROWS[3][1])]
    (few,) = kinds(sample(write(tmp_path / "a.tsv", rows))).values()
    assert (few.kind, few.count, few.places, few.is_warning) == ("duplicates", 1, ("line 42",), False)
    (many,) = kinds(sample(write(tmp_path / "b.tsv", [*rows, ROWS[0], ROWS[0]]))).values()
    assert (many.kind, many.count, many.places, many.is_warning) == (
        "duplicates", 3, ("line 42", "line 43", "line 44"), True)  # fmt: skip


def test_the_order_of_a_pair_matters(tmp_path):
    rows = [("one", "other", "label"), *((a, b, "card") for a, b in zip(WORDS, WORDS[1:], strict=False)),
            *((b, a, "limit") for a, b in zip(WORDS, WORDS[1:], strict=False))]  # fmt: skip
    assert not kinds(sample(write(tmp_path / "a.tsv", rows), columns=("one", "other")))


def test_one_text_with_two_labels(tmp_path):
    (found,) = kinds(sample(write(tmp_path / "a.tsv", [HEADER, *ROWS, (ROWS[1][0], "limit")]))).values()
    assert (found.kind, found.count, found.places) == ("contradictions", 2, ("line 3", "line 42"))
    assert found.is_warning
    assert f"{ROWS[1][0]!r} has 'card' in line 3 and 'limit' in line 42 (" in str(found)


def test_one_pair_with_two_scores(tmp_path):
    rows = [HEADER, *((text, str(i % 3)) for i, text in enumerate(WORDS)), (WORDS[0], "2.5")]
    (found,) = kinds(sample(write(tmp_path / "a.tsv", rows), kind=number())).values()
    assert found.kind == "contradictions" and "has 0.0 in line 2 and 2.5 in line 42" in str(found)


def test_texts_to_train_and_to_score_on(tmp_path):
    train = sample(write(tmp_path / "train.tsv", [HEADER, *ROWS[:30]]))
    dev = sample(write(tmp_path / "dev.tsv", [HEADER, (ROWS[7][0].upper(), "limit"), *ROWS[30:]]))
    (found,) = kinds(train, dev).values()
    assert (found.kind, found.path, found.places) == ("overlap", dev.path, ("line 2",)) and found.is_warning
    assert f"1 of 11 examples (9.1%) is also in {train.path}" in str(found)


def test_labels_that_training_does_not_have(tmp_path):
    train = sample(write(tmp_path / "train.tsv", [HEADER, *ROWS[:30]]))
    dev = sample(write(tmp_path / "dev.tsv", [HEADER, *ROWS[30:], ("new", "other"), ("newer", "Card ")]))
    (found,) = kinds(train, dev).values()
    assert (found.kind, found.count, found.places) == ("unknown_labels", 2, ("line 12", "line 13"))
    alike = "ignoring spaces and letter case, 'Card ' is 'card' in training ("
    assert f"'Card ' 1, 'other' 1; {alike}" in str(found)


def test_labels_that_the_evaluation_lacks(tmp_path):
    train = sample(write(tmp_path / "train.tsv", [HEADER, *ROWS[:30], *[(f"new {i}", "other") for i in range(3)]]))
    dev = sample(write(tmp_path / "dev.tsv", [HEADER, *ROWS[30:]]))
    (found,) = kinds(train, dev).values()
    assert (found.kind, found.path, found.count, found.is_warning) == ("untested_labels", dev.path, 1, True)
    assert f"no examples of 1 of the 5 labels in {train.path}" in str(found) and "'other' 3 in training" in str(found)


@pytest.mark.parametrize("name, separator, called", [
    ("a.csv", ";", "semicolons"), ("a.csv", "\t", "tabs"), ("a.tsv", ",", "commas"), ("a.csv.gz", "|", "bars"),
])  # fmt: skip
def test_another_separator_than_the_name_says(tmp_path, name, separator, called):
    path = write(tmp_path / name, [HEADER, *ROWS], separator)
    option = f"`separator={'tab' if separator == chr(9) else repr(separator)}`"
    wanted = rf"columns \['text.+label'\]; {called} seem to separate the columns: set {re.escape(option)}"
    with pytest.raises(ValueError, match=wanted):
        sample(path)
    found = kinds(sample(path, False, (0,), None))  # nobody notices: the whole row is the text
    assert f"the columns seem to be separated by {called}, but " in str(found["separator"])
    found = check_samples({"test": sample(path, False, (0,), None)})
    assert [each.kind for each in found] == ["separator"]


def test_commas_in_texts_are_no_separators(tmp_path):
    rows = [(f"{text}, or not{', I think' * (i % 3)}", label) for i, (text, label) in enumerate(ROWS)]
    assert not kinds(sample(write(tmp_path / "a.tsv", [HEADER, *rows])))
    assert not check_samples({"test": sample(write(tmp_path / "b.tsv", [row[:1] for row in rows]), False, (0,), None)})


def test_commas_that_cut_texts_off(tmp_path):
    rows = [(label, text if i % 8 else f"{text}, and so on") for i, (text, label) in enumerate(ROWS)]
    (found,) = kinds(sample(write(tmp_path / "a.csv", rows, ","), False, (1,), 0)).values()
    assert (found.kind, found.count, found.places[:2]) == ("uneven_rows", 5, ("line 1", "line 9"))
    assert str(found).endswith("put fields that contain commas in double quotes.")


def test_a_wrong_encoding(tmp_path):
    rows = [HEADER, *ROWS, ("où est ma carte", "card"), ("réglé", "limit")]
    (found,) = kinds(sample(write(tmp_path / "a.tsv", rows, encoding="cp1252"))).values()
    assert (found.kind, found.count, found.places) == ("encoding", 2, ("line 42", "line 43"))
    assert "3 bytes that are not UTF-8, in 2 lines" in str(found)
    assert str(found).endswith("set `encoding` to that of the file, such as cp1252, or convert the file to UTF-8.")
    assert not kinds(sample(write(tmp_path / "b.tsv", rows)))
    assert not kinds(dataclasses.replace(sample(tmp_path / "a.tsv"), dialect=Dialect(encoding="cp1252")))


def test_several_files_of_one_split(tmp_path):
    write(tmp_path / "a.tsv", [HEADER, *ROWS[:20]])
    write(tmp_path / "b.tsv", [HEADER, *ROWS[20:], ("où", "card"), ROWS[0]], encoding="cp1252")
    found = kinds(sample(tmp_path / "?.tsv"))
    assert found["duplicates"].places == (f"{tmp_path}/b.tsv:23",)
    assert f"{tmp_path}/b.tsv: 1 byte that is not UTF-8" in str(found["encoding"])
    assert found["encoding"].path == f"{tmp_path}/?.tsv" and found["encoding"].places == ("line 22",)


def test_a_bad_byte_in_a_file_that_is_utf8_otherwise(tmp_path):
    """To convert all of it would damage the letters that are right."""
    path = write(tmp_path / "a.tsv", [HEADER, *ROWS, ("où est ma carte", "card")])
    path.write_bytes(path.read_bytes() + "réglé\tlimit\n".encode("cp1252"))
    (found,) = kinds(sample(path)).values()
    assert (found.kind, found.places) == ("encoding", ("line 43",))
    assert "2 bytes that are not UTF-8, in 1 line: " in str(found)
    assert "correct this line by hand" in str(found) and "`encoding`" not in str(found)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_two_bytes_a_letter_are_refused(tmp_path, encoding):
    with pytest.raises(ValueError, match=rf"must be UTF-8 text, .*iconv -f {encoding.upper().replace('-', '-?')}"):
        sample(write(tmp_path / "a.tsv", [HEADER, *ROWS], encoding=encoding))


def test_letters_that_were_encoded_twice(tmp_path):
    damaged = "où est l’été".encode().decode("cp1252")
    (found,) = kinds(sample(write(tmp_path / "a.tsv", [HEADER, *ROWS, (damaged, "card")]))).values()
    assert (found.kind, found.places, found.is_warning) == ("damaged_letters", ("line 42",), True)
    assert "1 of 42 lines (2.4%)" in str(found)
    found = kinds(sample(write(tmp_path / "b.tsv", [HEADER, *ROWS, ("São ÂNGELA, NÃO “é” à Â", "card")])))
    assert not found


def test_jsonl_has_lines_and_parquet_rows(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"text": [text for text, _ in ROWS] + [""], "label": [label for _, label in ROWS] + ["card"]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    (found,) = kinds(sample(tmp_path / "a.parquet")).values()
    assert (found.kind, found.places) == ("empty_texts", ("row 41",))


def test_the_findings_do_not_hang_on_how_large_files_are(tmp_path):
    """The hashes of 64 bits keep apart what differs, and group what does not, in any order of the rows."""
    rows = [(f"text number {i % 9000}", NAMES[i % 9000 % 4]) for i in range(12000)]
    (found,) = kinds(sample(write(tmp_path / "a.tsv", [HEADER, *rows]))).values()
    assert (found.kind, found.count, found.places[0]) == ("duplicates", 3000, f"line {9002}")
    assert len(found.places) == 1000 and os.fspath(tmp_path) not in found.text


def test_texts_of_unknown_tokens_are_warned_of_where_such_tokens_are_few():
    samples = {"train": CheckedExamples("a.tsv", str, {"text": ["a"] * 1000})}
    few, some = ({"train": TokenCounts(1000, 0, 100_000, 60, texts)} for texts in (9, 12))
    (note,), (warning,) = check_unknown_tokens(samples, few), check_unknown_tokens(samples, some)
    assert not note.is_warning and warning.is_warning
    assert warning.what == (
        "60 of 100,000 tokens (0.06%) are not in the vocabulary of the model; 12 of 1,000 texts (1.2%) consist "
        "mostly of such tokens"
    )


def test_a_text_may_have_none_of_several_labels(tmp_path):
    one = dataclasses.replace(sample(write(tmp_path / "a.tsv", [HEADER, *ROWS])), bad_labels={7: None})
    several = dataclasses.replace(one, labels=[(name,) for name in one.labels])
    (of_one,), (of_several,) = (check_samples({"dev": each}) for each in (one, several))
    assert (of_one.kind, of_one.remedy) == ("empty_labels", "fill it in or remove the row")
    assert (of_several.kind, of_several.remedy) == (
        "empty_labels",
        "write an empty list or field for an example without labels; otherwise, fill it in or remove the row",
    )
