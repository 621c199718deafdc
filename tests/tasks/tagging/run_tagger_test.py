"""bert-tf train tagger as a user runs it: columns and JSON lines in, tags, entities and scores out, served alike."""

import json

import pytest

from bert_tf.checkpoints.tf1 import read_tensors
from bert_tf.evaluation import entities
from bert_tf.serving.client.client import Client
from bert_tf.serving.server.server import serve
from bert_tf.tasks.tagging.columns import read_columns
from tests import tiny
from tests.scripts import at, run_named, run_programs
from tests.tasks.program_tests import *  # noqa: F403
from tests.tasks.program_tests import json_lines, scores_of, table_of
from tests.tasks.tagging import support

pytestmark = pytest.mark.slow  # run_squad goes the same way among the fast tests

PROGRAM = "run_tagger"

TRAIN = ["--init_checkpoint=HOME/init", "--train_file=HOME/train.txt", "--do_train", "--train_batch_size=16",
         "--max_seq_length=16", "--doc_stride=6", "--learning_rate=4e-3", "--num_train_epochs=12",
         "--seed=2"]  # fmt: skip
DEEP = ["--init_checkpoint=HOME/deep", *TRAIN[1:]]  # of two layers
ASK = ["--do_eval", "--eval_file=HOME/dev.jsonl", "--do_predict", "--predict_file=HOME/ask.jsonl"]
CASES = {
    "whole": [*TRAIN, *ASK, "--test_file=HOME/test.txt", "--do_export", "--save_checkpoints_steps=30",
              "--output_dir=HOME/whole"],
    "later": ["--init_checkpoint=HOME/whole", *ASK, "--output_dir=HOME/later"],  # it remembers how it was trained
    "answers": ["--init_checkpoint=HOME/whole", *ASK[2:], "--output_dir=HOME/later"],
    "spans": ["--init_checkpoint=HOME/whole", "--do_eval", "--eval_file=HOME/spans-*.jsonl", "--do_predict",
              "--predict_file=HOME/spans-1.jsonl,HOME/spans-2.jsonl", "--output_dir=HOME/spans"],
}
LATER = {"later": ("predictions.jsonl", "predictions.txt", "eval_predictions.txt")}
PAGE = ("Error analysis: dev.jsonl", "Errors by entity type", "no entity", "QUAL")
COLUMNS = ["id", "tags", "predicted_tags", "probability", "text"]
DEEP = [*TRAIN, "--init_checkpoint=HOME/deep"]  # of two layers, for the slow tests
MORE = {
    "another file": ["--do_eval", "--eval_file=HOME/train.txt", "--output_dir=HOME/whole"],
    "frozen": [*DEEP, *ASK, "--do_export", "--feature_layers=weighted_sum_all", "--lstm_units=16",
               "--learning_rate=1e-2", "--output_dir=HOME/frozen", "--keep_optimizer"],
    "frozen, later": ["--init_checkpoint=HOME/frozen", *ASK, "--output_dir=HOME/frozen_later"],
}  # fmt: skip
OPTIONS = [*DEEP, "--do_eval", "--eval_file=HOME/dev.jsonl", "--metric_for_best_model=f1_FLAW", "--early_stopping=2",
           "--class_weights=balanced", "--label_smoothing=0.1", "--freeze_layers=1", "--layerwise_lr_decay=0.9",
           "--save_checkpoints_steps=10", "--output_dir=HOME/options"]  # fmt: skip
FROZEN = [*TRAIN, "--feature_layers=last"]
OUT = "--output_dir=HOME/bad"
BAD = {  # case -> arguments, what the message says
    "no file": ([*TRAIN[:1], *TRAIN[2:], OUT], "--do_train requires sentences. Specify --train_file"),
    "ragged": ([*TRAIN, "--train_file=HOME/ragged.txt", OUT], "ragged.txt:2: a word's line must have 2 columns"),
    "scheme": ([*TRAIN, "--tag_scheme=iob2", "--train_file=HOME/iob1.txt", OUT],
               "iob1.txt:1: the tags must follow iob2 (--tag_scheme)"),
    "empty": ([*TRAIN, "--train_file=HOME/empty.jsonl", OUT],
              "empty.jsonl:2: 'tokens' must be a non-empty list of texts"),
    "unknown": ([*TRAIN, "--train_file=HOME/unknown.txt", OUT], "unknown.txt:1: a tag must be O, or a prefix"),
    "unseen": (["--init_checkpoint=HOME/whole", "--do_eval", "--eval_file=HOME/unseen.txt", OUT],
               "unseen.txt:1: the tag must be one of those in the training data: B-FLAW"),
    "stride": ([*TRAIN, "--doc_stride=15", OUT],
               "--doc_stride must be from 1 to 14, the number of tokens that fit into a sequence of --max_seq_length"),
    "lora": ([*FROZEN, "--lora_rank=2", OUT],
             "--feature_layers and --lora_rank cannot be combined. Remove one."),
    "shallow": ([*TRAIN, "--feature_layers=concat_last_4", OUT],
                "--feature_layers=concat_last_4 requires a model with at least 4 layers, but this one has 1"),
    "adapters": ([*TRAIN, "--lstm_units=8", "--lora_rank=2", OUT],
                 "--lstm_units and --lora_rank cannot be combined. Remove one."),
    "BiLSTM's format": ([*TRAIN, "--lstm_units=8", "--save_format=huggingface", OUT],
                        "The heads of a model must belong to one class"),
    "untrained": (["--init_checkpoint=HOME/whole", *ASK, "--feature_layers=last", OUT],
                  "--feature_layers requires --do_train."),
    "overlap": ([*TRAIN, "--train_file=HOME/train.txt,HOME/overlap.jsonl", OUT],
                "overlap.jsonl:1: entities must not overlap; got X 'a b' at 0 to 3, and Y 'b' at 2 to 3"),
    "encoding": ([*TRAIN, "--encoding=latin-0", OUT], "--encoding must be an encoding that Python knows"),
    "other task": (["--init_checkpoint=HOME/classifier", *ASK, OUT], "This requires a model for tagging."),
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run_tagger")
    tiny.checkpoint(folder / "init", dropout=0.1)
    tiny.checkpoint(folder / "deep", dropout=0.1)
    tiny.checkpoint(folder / "classifier")
    (folder / "classifier" / "task.json").write_text(json.dumps(
        {"task": "classification", "num_labels": 2, "text_inputs": ["text"], "max_seq_length": 16}))  # fmt: skip
    support.write_columns(folder / "train.txt", support.sentences(96))
    support.write_jsonl(folder / "dev.jsonl", support.sentences(30, 1))
    support.write_spans(folder / "spans-1.jsonl", support.sentences(30, 1)[:20])
    support.write_spans(folder / "spans-2.jsonl", support.sentences(30, 1)[20:])
    (folder / "overlap.jsonl").write_text('{"text": "a b", "label": [[0, 3, "X"], [2, 3, "Y"]]}\n')
    support.write_columns(folder / "test.txt", support.sentences(20, 3))
    texts = ["a 😀 good film", "the people, cold bad", "people see good!", "the film is good ."]
    extra = [[(word, "O") for word in text.split(" ")] for text in texts]
    support.write_jsonl(folder / "ask.jsonl", [*support.sentences(20, 2), *extra])
    for name, content in {
        "ragged.txt": "a O\nb\n", "iob1.txt": "good I-QUAL\n", "unknown.txt": "good X-QUAL\n",
        "unseen.txt": "good B-NEW\n",
        "empty.jsonl": '{"tokens": ["a"], "tags": ["O"]}\n{"tokens": [], "tags": []}\n',
    }.items():  # fmt: skip
        (folder / name).write_text(content, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def deep(home):
    return tiny.checkpoint(home / "deep", dropout=0.1, num_hidden_layers=2)


@pytest.fixture(scope="module")
def more(home, deep):
    return run_named("run_tagger", home, MORE)


def test_answers_without_scores_are_not_said_to_have_them(results):
    assert results["answers"]["status"] == 0
    assert "contains the metrics of" not in results["answers"]["log"]


@pytest.mark.parametrize("suffix", ["", "_test"])
def test_scores_are_conllevals_of_the_columns_that_are_written(home, results, suffix):
    scores = scores_of(home / "whole", f"eval_results{suffix}.txt")
    text = (home / "whole" / f"eval_predictions{suffix}.txt").read_text()
    rows = [block.splitlines() for block in text.split("\n\n")]
    golds, predictions = ([[line.split()[side] for line in block] for block in rows] for side in (1, 2))
    for name, value in entities.score_entities(golds, predictions).items():
        assert scores[f"eval_{name}"] == pytest.approx(value), name
    assert scores["eval_f1"] > 0.7 and scores["eval_f1_QUAL"] > 0.9 and scores["global_step"] == 80


@pytest.mark.slow
def test_the_tags_of_another_file_have_other_names(home, results, more):
    first, other = (read_columns(home / "whole" / f"eval_predictions{suffix}.txt") for suffix in ("", "_train"))
    assert len(first.words) == len(read_columns(home / "dev.jsonl").words)
    assert len(other.words) == len(read_columns(home / "train.txt").words) != len(first.words)
    scores = (home / "whole" / "eval_results_train.txt").read_text()
    assert "eval_f1 = " in scores and scores != (home / "whole" / "eval_results.txt").read_text()


def test_spans_in_several_files_are_scored_as_tags_are(home, results):
    assert results["spans"]["status"] == 0, results["spans"]["log"]
    assert scores_of(home / "spans") | {"global_step": 80} == scores_of(home / "whole")
    given = [each for i in (1, 2) for each in json_lines(home / f"spans-{i}.jsonl")]
    said = json_lines(home / "spans" / "predictions.jsonl")
    assert [line["text"] for line in said] == [line["text"] for line in given]
    assert [line["id"] for line in said] == [str(i) for i in range(30)]
    (read,) = json.loads((home / "spans" / "eval_files.json").read_text()).values()
    assert [file["file"].rsplit("/", 1)[1] for file in read["files"]] == ["spans-1.jsonl", "spans-2.jsonl"]


def test_the_table_has_the_tags_of_the_columns(home, results):
    columns = read_columns(home / "whole" / "eval_predictions.txt")  # the last column: what was predicted
    assert [row[2].split() for row in table_of(home / "whole")[1]] == columns.tags


def test_predictions_as_columns_and_as_entities_agree(home, results):
    asked, said = json_lines(home / "ask.jsonl"), json_lines(home / "whole" / "predictions.jsonl")
    columns = read_columns(home / "whole" / "predictions.txt")
    for sentence, line, words, tags in zip(asked, said, columns.words, columns.tags, strict=True):
        assert line["text"] == " ".join(sentence["tokens"]) and len(words) == len(tags) == len(sentence["tokens"])
        assert len(line["entities"]) == len(entities.parse_entities(tags))
        for entity in line["entities"]:
            assert list(entity) == ["text", "type", "start", "end", "score"] and 0 < entity["score"] <= 1
            assert line["text"][entity["start"] : entity["end"]] == entity["text"]


@pytest.mark.slow
def test_a_frozen_encoder_stays_and_its_bilstm_learns(home, more):
    assert {result["status"] for result in more.values()} == {0}, more
    weights, begun = read_tensors(f"{home}/frozen/model.ckpt-80"), read_tensors(f"{home}/deep/bert_model.ckpt")
    assert all((weights[name] == begun[name]).all() for name in begun)
    assert weights["tagger/layer_sum/layer_weights"].any() and scores_of(home / "frozen")["eval_f1"] > 0.7
    assert {name.rsplit("/", 1)[0] for name in weights if name.endswith("/adam_m")} == {
        name for name in weights if name.startswith("tagger/") and "adam" not in name
    }
    for name in LATER["later"]:
        assert (home / "frozen_later" / name).read_bytes() == (home / "frozen" / name).read_bytes()
    _check_served(home / "frozen")


def test_the_served_entities_are_the_scripts(home, results):
    _check_served(home / "whole")


def _check_served(folder):
    said = json_lines(folder / "predictions.jsonl")
    with serve(f"{folder}/export", "tags") as server, Client(f"localhost:{server.port}", "tags") as client:
        served = client.ask({"text": [line["text"] for line in said]})
        assert client.ask({"text": ["the people is"]})[0].keys() == {"entities"}
    for line, answer in zip(said, served, strict=True):
        pairs = zip(line["entities"], answer["entities"], strict=True)
        assert all(a.pop("score") == pytest.approx(b.pop("score"), abs=1e-4) and a == b for a, b in pairs)


@pytest.mark.slow
def test_all_that_fine_tuning_has_works_for_it(home, deep):
    (result,) = run_programs("run_tagger", [at(home, OPTIONS)])
    assert result["status"] == 0, result["log"]
    log = result["log"]
    assert "Layers: frozen: the embeddings and 1 of the layers; learning rate: times 0.9" in log
    assert "eval_f1_FLAW = " in log and (home / "options" / "best_checkpoint.json").exists()
    assert 'aria-label="F1 FLAW"' in (home / "options" / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_frozen_encoder_goes_with_all_that_is_not_about_it(home, deep):
    options = ["--precision=mixed_bfloat16", "--gradient_accumulation_steps=2", "--metric_for_best_model=f1",
               "--save_format=bert_tf", "--class_weights=balanced", "--save_checkpoints_steps=30", "--do_export",
               "--feature_layers=weighted_sum_all", "--lstm_units=16", "--learning_rate=1e-2"]  # fmt: skip
    for xla in ("false", "true"):
        out = f"{home}/frozen-{xla}"
        line = [*DEEP, *ASK, *options, f"--use_xla={xla}", f"--output_dir={out}"]
        line = at(home, line)
        first, again = run_programs("run_tagger", [line, line])
        assert first["status"] == 0 and scores_of(home / f"frozen-{xla}")["eval_f1"] > 0.7, first["log"]
        assert again["status"] == 0 and "Continuing this run from step 80" in again["log"]
        (saved,) = (home / f"frozen-{xla}" / "bert_tf").glob("*.index")
        assert "tagger/lstm_1/recurrent_kernel" in read_tensors(str(saved).removesuffix(".index"))
