"""`bert-tf data check` on files of every task, and the same look at the start of a run."""

import json
import os
import re
import sys

import pytest

from bert_tf.cli import check_data
from tests import tiny
from tests.run_cases import run_here
from tests.scripts import Cases, at, files, run_named
from tests.tasks import custom_task

MODEL = ["--init_checkpoint=HOME/init", "--max_seq_length=16"]
TABLE = ["--train_file=HOME/train.tsv", "--eval_file=HOME/dev.tsv"]
BAD = ["--train_file=HOME/bad.tsv", "--eval_file=HOME/other.tsv"]
QUESTIONS = ["--task=question_answering", "--train_file=HOME/squad.json"]
TAGS = ["--task=tagging", "--train_file=HOME/tags.txt", "--eval_file=HOME/tags.txt"]
CHOICES = ["--task=multiple_choice", "--train_file=HOME/choices.jsonl"]
QUERIES = ["--task=reranking", "--train_file=HOME/queries.jsonl"]
CASES = {
    "clean": [*TABLE, *MODEL],
    "bad": [*BAD, *MODEL],
    "no labels": ["--train_file=HOME/no_labels.tsv"],
    "no texts": ["--train_file=HOME/no_texts.jsonl"],
    "no third texts": ["--task=embedding", "--train_file=HOME/no_pairs.jsonl", "--text_column=a,b,c"],
    "no scores": ["--train_file=HOME/no_labels.tsv", "--problem_type=regression"],
    "pairs without scores": ["--task=embedding", "--loss=cosine", "--train_file=HOME/no_scores.tsv"],
    "strict": [*BAD, "--strict_data"],
    "clean and strict": [*TABLE, "--strict_data"],
    "json": [*BAD, "--json"],
    "pairs": ["--task=embedding", "--train_file=HOME/pairs.tsv"],
    "questions": [*QUESTIONS, *MODEL, "--max_query_length=4", "--doc_stride=4"],
    "tags": TAGS,
    "columns of tags": [*TAGS, "--text_column=1", "--tag_column=0"],
    "choices": [*CHOICES, *MODEL],
    "queries": [*QUERIES, "--loss=pairwise", *MODEL],
    "a loss of another task": [*QUERIES, "--loss=cosine"],
    "semicolons": ["--train_file=HOME/de-*.csv,HOME/more.csv", "--separator=;", "--encoding=cp1252", "--drop_empty"],
    "columns of labels": ["--train_file=HOME/several.csv", "--label_columns=toxic,threat"],
    "a separator of tags": [*TAGS, "--separator=;"],
    "no file": [],
    "a flag of another task": [*TABLE, "--tag_column=1"],
    "a name for a number": [*TAGS, "--text_column=word"],
}
TRAIN = ["--do_train", "--train_file=HOME/bad.tsv", *MODEL, "--train_batch_size=8", "--num_train_epochs=1"]
DRY = ["--dry_run", *TRAIN[1:], "--output_dir=HOME/dry"]
RUNS = {
    "refused": [*TRAIN, "--output_dir=HOME/refused", "--strict_data"],
    "dry": DRY,
}
LONG_RUNS = {
    "warned": [*TRAIN, "--output_dir=HOME/warned"],
    "dry and strict": [*DRY, "--strict_data"],
    "dry, in windows": [*DRY, "--long_text=window"],
    "dry, of what is trained": [*TRAIN, "--dry_run", "--output_dir=HOME/warned"],
    "dry, of answers": ["--dry_run", "--do_eval", "--eval_file=HOME/bad.tsv", "--max_seq_length=16",
                        "--output_dir=HOME/warned"],
}  # fmt: skip


def _bad_rows():
    """Texts of three labels that are five, one of them long, one empty, one with two labels."""
    rows = [*tiny.texts(36, names=("no", "yes")), *tiny.texts(6, seed=3, names=("No ", "YES"))]
    long = "the film is a story of people and music to see it " * 2
    return [*rows, ("", "no"), (long, "no"), (rows[0][0], "perhaps")]


def _questions():
    context = "ada wrote the first program in london"
    asked = [("who wrote it", "ada")] * 2 + [("where did ada write the first program", "london"), ("", "ada")]
    qas = [{"id": str(i), "question": question, "answers": [{"text": text, "answer_start": context.index(text)}]}
           for i, (question, text) in enumerate(asked)]  # fmt: skip
    return {"version": "1.1", "data": [{"title": "", "paragraphs": [{"context": context, "qas": qas}]}]}


def _sentences():
    words = "the old film is a story of people and music in {}"
    tags = [("Rome", "B-LOC")] * 3 + [("Rome", "B-Loc"), ("Paris", "B-LOC"), ("Bonn", "O")] + [("Bonn", "B-LOC")]
    return "".join("".join(f"{word} O\n" for word in words.split()[:-1]) + f"{name} {tag}\n\n" for name, tag in tags)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("check_data")
    tiny.checkpoint(folder / "init")
    tiny.write_tsv(folder / "train.tsv", tiny.texts(40))
    tiny.write_tsv(folder / "dev.tsv", tiny.texts(12, seed=1))
    tiny.write_tsv(folder / "bad.tsv", _bad_rows())
    tiny.write_tsv(folder / "other.tsv", [*_bad_rows()[:4], ("good people", "yse")])
    tiny.write_tsv(folder / "no_labels.tsv", [("a film", ""), *tiny.texts(40), ("a story", " "), ("", "yes")])
    texts = [(None, "no"), *tiny.texts(40), (float("nan"), "yes"), (7, "no"), (None, "")]
    tiny.write_jsonl(folder / "no_texts.jsonl", texts, ("text", "label"))
    pairs = [(f"the {word}", f"a {word}", f"no {n}") for n, word in enumerate(tiny.FILL)]
    pairs[1], pairs[3] = (*pairs[1][:2], None), (None, *pairs[3][1:])
    tiny.write_jsonl(folder / "no_pairs.jsonl", pairs, ("a", "b", "c"))
    tiny.write_tsv(folder / "no_scores.tsv", [("a", "b", "1"), ("c", "d", "")], "text_a\ttext_b\tlabel")
    pairs = [(text, "the film", "a story") for text, _ in tiny.texts(20)]
    tiny.write_tsv(folder / "pairs.tsv", [*pairs, pairs[0], pairs[1], ("music", " ", "")], "text_a\ttext_b\tnote")
    for name, rows in {"de-2.csv": ["b;1"], "de-1.csv": ["größer;0", ";1"], "more.csv": ["c;", "c;1", "c;1"]}.items():
        (folder / name).write_text("\n".join(["text;label", *rows]), encoding="cp1252")
    (folder / "several.csv").write_text("text,toxic,threat\na,1,\nb,1,0\nc,0,0\nd,TRUE,1\n")
    (folder / "squad.json").write_text(json.dumps(_questions()))
    (folder / "tags.txt").write_text(_sentences())
    choices = [(f"the {word}", ["is good", "is bad"], i % 2) for i, word in enumerate(tiny.FILL)]
    alone, names = ("", ["rome", "bonn"], 0), ("context", "choices", "label")
    long = ("the film", ["is good " * 10, "is bad"], 0)
    tiny.write_jsonl(folder / "choices.jsonl", [*choices, long, choices[0][:2] + (1,), alone], names)
    queries = [(f"the {word}", ["is good"], [f"bad {word}"]) for word in tiny.FILL]
    tiny.write_jsonl(folder / "queries.jsonl", [*queries, queries[0]], ("query", "positives", "negatives"))
    return folder


@pytest.fixture(scope="module")
def results(home):
    """{case: {"status", "log"}} of `data check`, and of the runs that train nothing; none of them writes a file."""
    before = files(home)
    with Cases("check_data") as program:
        found = {name: program.run(at(home, case)) for name, case in CASES.items()}
        found |= {name: program.run(at(home, case), name="run_classifier") for name, case in RUNS.items()}
    assert files(home) == before and not (home / "refused").exists() and not (home / "dry").exists()
    return found


@pytest.fixture(scope="module")
def long_runs(home):
    return run_named("run_classifier", home, LONG_RUNS)


def test_help_tells_the_default_of_each_task():
    help_of = {flag.name: flag.help for flag in check_data.FLAGS}
    for default in (" Default: text for classification", "; text_a,text_b for embedding", "; 0 for tagging"):
        assert default in help_of["text_column"]
    assert help_of["label_column"].endswith(" Default: label.") and help_of["header"].endswith(" Default: true.")
    assert help_of["label_separator"].endswith(" Default: ','.")
    assert help_of["vocab_file"].lower().count("default") == help_of["do_lower_case"].lower().count("default") == 1
    assert ", reranking, tagging" in help_of["max_seq_length"]
    assert "; 384 for question_answering" in help_of["max_seq_length"]
    assert " Default: half of --max_seq_length. But 128 for question_answering" in help_of["doc_stride"]


def _kinds(log):
    """Returns {(kind, whether it is a warning)} of the lines that were printed."""
    return {(kind, level == "WARNING") for level, kind in re.findall(r"^  (WARNING|note) +(\w+) ", log, re.MULTILINE)}


@pytest.mark.slow
def test_clean_files_have_no_finding(results):
    result = results["clean"]
    assert result["status"] == 0 and _kinds(result["log"]) == set()
    assert "train.tsv (train): 40 examples\n  2 labels: " in result["log"]
    assert re.search(r"  lengths: median \d+, 95% up to \d+, maximum 16; --max_seq_length=16\n", result["log"])
    assert result["log"].rstrip().endswith("Warnings: 0. Notes: 0.")
    assert results["clean and strict"]["status"] == 0


@pytest.mark.slow
def test_bad_files_have_them_all(results):
    result = results["bad"]
    assert result["status"] == 0, result["log"]
    assert _kinds(result["log"]) >= {("label_spellings", True), ("rare_labels", True), ("empty_texts", True),
                                     ("contradictions", True), ("overlap", True), ("unknown_labels", True),
                                     ("cut_texts", False)}  # fmt: skip
    assert re.search(r"Warnings: [67]\. Notes: [12]\.$", result["log"].rstrip())
    assert re.search(r"spellings .*\(line 38, line 39, .*, \.\.\.; all: --json\); give", result["log"])


@pytest.mark.slow
def test_strict_data_ends_with_an_error_after_all_was_told(results):
    result = results["strict"]
    assert result["status"] == 1
    assert _kinds(result["log"]) == _kinds(results["bad"]["log"]) - {("cut_texts", False)}
    assert re.search(r"Error: The data check found .* label_spellings in /.*bad\.tsv", result["log"])
    assert "Traceback" not in result["log"]


@pytest.mark.slow
def test_json_has_files_and_findings_with_their_places(results):
    log = results["json"]["log"]
    told = json.loads(log[log.index("{\n") : log.rindex("}") + 1])
    assert [file["examples"] for file in told["files"]] == [45, 5]
    assert told["files"][0]["labels"]["perhaps"] == 1
    (empty,) = [each for each in told["findings"] if each["kind"] == "empty_texts"]
    assert empty["places"] == ["line 44"] and empty["count"] == 1 and empty["is_warning"]


@pytest.mark.slow
def test_other_tasks(results):
    assert _kinds(results["pairs"]["log"]) == {("duplicates", True), ("empty_texts", True)}
    assert _kinds(results["questions"]["log"]) == {
        ("duplicates", True), ("empty_texts", True), ("cut_texts", True), ("unknown_tokens", True)}  # fmt: skip
    assert "does not fit into --max_query_length=4 and is truncated" in results["questions"]["log"]
    assert "data[0].paragraphs[0].qas[1] (id '1')" in results["questions"]["log"]
    assert _kinds(results["tags"]["log"]) == {
        ("label_spellings", True), ("duplicates", True), ("contradictions", True), ("overlap", True)}  # fmt: skip
    assert "6 of 7 examples (86%) have the same text as another one, but a different tags: " in results["tags"]["log"]
    assert "has 'B-LOC' in line 1 and 'B-Loc' in line 40 (" in results["tags"]["log"]
    # An empty context is none of them.
    assert _kinds(results["choices"]["log"]) == {
        ("contradictions", True), ("cut_texts", False), ("unknown_tokens", True)}  # fmt: skip


@pytest.mark.slow
def test_queries(results):
    log = results["queries"]["log"]
    assert results["queries"]["status"] == 0 and _kinds(log) == {("duplicates", True)}, log
    log = results["a loss of another task"]["log"]
    assert "--loss must be one of binary_cross_entropy, pairwise, listwise_softmax for --task=reranking; got cos" in log


@pytest.mark.slow
def test_several_files_with_another_separator_and_encoding(results):
    log = results["semicolons"]["log"]
    assert "(train): 4 examples\n  2 labels: '1' 3, '0' 1" in log and "encoding" not in log
    assert "de-1.csv: dropped 1 row with an empty text or label, in line 3." in log
    assert re.search(r"WARNING +duplicates .* \(/.*/more.csv:4\);", log)
    assert "--separator does not apply to --task=tagging. Remove it" in results["a separator of tags"]["log"]


@pytest.mark.slow
def test_labels_in_columns(results):
    assert "(train): 4 examples\n  2 labels: 'toxic' 3, 'threat' 1" in results["columns of labels"]["log"]


@pytest.mark.slow
def test_rows_without_a_label_are_found_all_at_once(results):
    log = results["no labels"]["log"]
    kinds = {("empty_labels", True), ("empty_texts", True), ("rare_labels", True), ("label_spellings", True)}
    assert _kinds(log) == kinds and "and true and yes are 1: '1' 21 and 'yes' 1" in log
    assert "no_labels.tsv (train): 41 examples" in log
    assert "2 of 43 rows (4.7%) have an empty label; training will not start (line 2, line 43); " in log
    log = results["no scores"]["log"]
    assert _kinds(log) == {("empty_labels", True), ("bad_labels", True)}
    assert "1 of 43 rows (2.3%) has a label that cannot be read, such as 'yes'; training" in log
    assert _kinds(results["pairs without scores"]["log"]) == {("empty_labels", True)}


@pytest.mark.slow
def test_rows_without_a_text_are_found_all_at_once(results):
    log = results["no texts"]["log"]
    assert _kinds(log) == {("missing_texts", True), ("bad_texts", True)}
    assert "no_texts.jsonl (train): 40 examples" in log
    assert "3 of 44 rows (6.8%) have no text; training will not start (line 1, line 42, line 44);" in log
    assert "1 of 44 rows (2.3%) has a text that cannot be read, such as 7; training" in log
    log = results["no third texts"]["log"]
    assert _kinds(log) == {("missing_texts", True)}
    assert re.search(r"2 of \d+ rows \(\d+%\) have no text; .* \(line 2, line 4\); fill them in", log)


@pytest.mark.slow
@pytest.mark.parametrize("name, message", [
    ("no file", "No files to check: pass at least one of --train_file, --eval_file, --test_file and --predict_file."),
    ("a flag of another task", "--tag_column does not apply to --task=classification. Remove it"),
    ("a name for a number", "--text_column must be a single number for this task; got word."),
    ("columns of tags", "tags.txt:1: a tag must be O, or a prefix"),
])  # fmt: skip
def test_what_cannot_be_read_ends_in_one_message(results, name, message):
    assert results[name]["status"] == 1 and message in results[name]["log"], results[name]["log"]
    assert "Traceback" not in results[name]["log"]


@pytest.mark.slow
def test_a_run_warns_and_goes_on(long_runs, home):
    result = long_runs["warned"]
    assert result["status"] == 0, result["log"]
    assert re.search(r"bad\.tsv: 5 labels, but only 3 if spaces and letter case are ignored: ", result["log"])
    assert (home / "warned" / "report.html").exists()


@pytest.mark.slow
def test_a_strict_run_writes_nothing(results):
    assert results["refused"]["status"] == 1
    assert "Error: The data check found " in results["refused"]["log"]


@pytest.mark.slow
def test_a_dry_run_says_what_it_takes_and_writes_nothing(results):
    result = results["dry"]
    assert result["status"] == 0, result["log"]
    assert re.search(r"^fits in memory +yes$", result["log"], re.MULTILINE)
    assert re.search(r"^tokens per step +128: 8 rows of 16$", result["log"], re.MULTILINE)
    assert re.search(r"^steps +5$", result["log"], re.MULTILINE)
    assert re.search(r"^time per step +\S+ s on average, over 3 timed steps$", result["log"], re.MULTILINE)
    assert re.search(r"^training time +\d+:\d\d, excluding evaluation and saving$", result["log"], re.MULTILINE)
    assert re.search(r"bad\.tsv: 5 labels, but only 3 if spaces and letter case are ignored: ", result["log"])
    assert "is truncated: " in result["log"] and "in overlapping windows with --long_text=window" in result["log"]


@pytest.mark.slow
def test_a_dry_run_may_be_strict(long_runs):
    assert long_runs["dry and strict"]["status"] == 1
    assert "Error: The data check found " in long_runs["dry and strict"]["log"]


@pytest.mark.slow
def test_a_dry_run_counts_rows_of_windows(long_runs):
    assert re.search(r"^tokens per step +256: 16 rows of 16$", long_runs["dry, in windows"]["log"], re.MULTILINE)


@pytest.mark.slow
def test_a_dry_run_of_a_finished_run_has_nothing_to_make(long_runs):
    trained, answers = long_runs["dry, of what is trained"], long_runs["dry, of answers"]
    assert trained["written"] == [] and answers["written"] == []
    assert re.search(r"^steps +0, after 5 completed$", trained["log"], re.MULTILINE)
    assert "Nothing would be trained." in answers["log"]


REAL = {
    "sst2-tutorial": ["--train_file=DATA/sst2-tutorial/train.tsv", "--eval_file=DATA/sst2-tutorial/dev.tsv",
                      "--predict_file=DATA/sst2-tutorial/test.tsv", "--header=false", "--text_column=0",
                      "--label_column=1", "--init_checkpoint=MINILM", "--strict_data"],
    "RTE": ["--task_name=rte", "--data_dir=DATA/glue/RTE", "--init_checkpoint=MINILM", "--strict_data",
            "--max_seq_length=256"],
    "CoNLL-2003": ["--task=tagging", "--train_file=CACHE/conll2003/eng.train", "--strict_data",
                   "--eval_file=CACHE/conll2003/eng.testa"],
    "SQuAD": ["--task=question_answering", "--train_file=CACHE/squad/train-v1.1.json", "--strict_data",
              "--eval_file=CACHE/squad/dev-v1.1.json"],
}  # fmt: skip


@pytest.mark.slow
def test_real_data_sets_have_no_warning(minilm, shared_data):
    cache = os.path.expanduser("~/.cache/bert_tf_data")
    places = {"DATA": str(shared_data), "CACHE": cache, "MINILM": minilm}
    with Cases("check_data") as program:
        for name, case in REAL.items():
            words = [re.sub("DATA|CACHE|MINILM", lambda match: places[match[0]], word) for word in case]
            paths = [word.partition("=")[2] for word in words if word.startswith(("--train_file", "--data_dir"))]
            if not os.path.exists(paths[0]):
                pytest.skip(f"needs {name} in {paths[0]}")
            result = program.run(words)
            assert result["status"] == 0 and "Warnings: 0." in result["log"], (name, result["log"])


def test_a_task_of_another_package_is_checked_with_its_own_flags_after_two_dashes(tmp_path, monkeypatch):
    custom_task.install(tmp_path / "site", monkeypatch)
    monkeypatch.delitem(sys.modules, "bert_tf.cli.check_data", False)  # a new process knows the packages of its start
    tiny.checkpoint(tmp_path / "init")
    tiny.write_tsv(tmp_path / "train.tsv", [("good film", "1"), ("good good film", "7")], "text\trating")
    flags = ["--task=rating", f"--train_file={tmp_path}/train.tsv", *MODEL[1:], f"--init_checkpoint={tmp_path}/init"]

    checked = run_here("check_data", [*flags, "--", "--highest=7"])
    assert checked["status"] == 0, checked["log"]
    assert f"{tmp_path}/train.tsv (train): 2 examples\n" in checked["log"] and "Warnings: 0." in checked["log"]

    wrong = run_here("check_data", flags)  # --highest is 5
    assert wrong["status"] == 1 and "train.tsv:3: " in wrong["log"]
    moved = run_here("check_data", [*flags, "--", "--max_seq_length=9"])
    assert moved["status"] == 1 and "--max_seq_length must come before the `--`" in moved["log"]
    strange = run_here("check_data", [*flags, "--", "--hihest=7"])
    message = "Flags of `train rating`: Unknown flag --hihest. Did you mean --highest?"
    assert strange["status"] == 1 and message in strange["log"]
