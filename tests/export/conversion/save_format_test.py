"""Every training program leaves its result in other forms too, and Transformers then answers as the program does."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from bert_tf.checkpoints import heads, writers
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.loading import ModelDescription, load_description
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export.conversion.convert import check_format
from bert_tf.inference.fill_mask import Filler
from bert_tf.models.lora import Lora, is_adapter
from bert_tf.runs.save_formats import save_formats
from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.options import RunOptions
from bert_tf.tasks.registry import read_task
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import other_envs, tiny
from tests.export.conversion import models
from tests.integration.pretraining import support as pretraining
from tests.scripts import at, run_programs
from tests.tasks.question_answering import support as squad
from tests.tasks.tagging import support as tagging

TEXTS = ["the film is a great story .", "music of cold people , and the dull film"]
SECOND = ["people see it", "it is warm"]
LENGTH = 24
TRAIN = ["--init_checkpoint=HOME/init", "--do_train", "--train_batch_size=16", f"--max_seq_length={LENGTH}",
         "--learning_rate=1e-3", "--num_train_epochs=2", "--save_format=huggingface,bert_tf"]  # fmt: skip
CASES = {
    "text": ("run_classifier", ["--train_file=HOME/texts.tsv"]),
    "pair": ("run_classifier", ["--train_file=HOME/pairs.tsv", "--text_column=one,two"]),
    "regression": ("run_classifier", ["--train_file=HOME/texts.tsv", "--problem_type=regression"]),
    "tagger": ("run_tagger", ["--train_file=HOME/tags.txt", "--doc_stride=8"]),
    "squad": ("run_squad", ["--train_file=HOME/squad.json", "--doc_stride=8", "--max_query_length=5"]),
}
CLASSES = {
    "text": "BertForSequenceClassification", "pair": "BertForSequenceClassification",
    "regression": "BertForSequenceClassification", "tagger": "BertForTokenClassification",
    "squad": "BertForQuestionAnswering", "masked_lm": "BertForPreTraining",
}  # fmt: skip


@pytest.mark.slow
def test_the_forms_go_beside_the_run_and_replace_older_ones(tmp_path):
    class Alone:
        class extended:
            should_checkpoint = True

    writers.write_model(tmp_path, "bert_tf", models.model("bert", "tokens"))
    settings = fine_tuning_settings(RunOptions)(output_dir=str(tmp_path), save_format=["huggingface", "tf1"])
    for _ in range(2):
        save_formats(settings, Alone)
    assert open_checkpoint(tmp_path / "huggingface").names.keys() == open_checkpoint(tmp_path / "tf1").names.keys()
    values = json.loads((tmp_path / "huggingface" / "config.json").read_text(encoding="utf-8"))
    assert values["architectures"] == ["BertForTokenClassification"]


def test_adapters_do_not_keep_a_result_from_another_form():
    config, tokenizer = tiny.config(), WordPieceTokenizer(tiny.VOCAB)
    task = ClassificationTask(dataclasses.replace(config, lora=Lora(2, 4.0)), 2)
    variables = task.build_model().variables
    assert any(is_adapter(variable.path) for variable in variables)
    check_format("huggingface", ModelDescription(config, tokenizer, None), variables, task)
    with pytest.raises(ValueError, match="`save_format=sentence_transformers` cannot store everything"):
        check_format("sentence_transformers", ModelDescription(config, tokenizer, None), variables, task)


@pytest.mark.slow
def test_a_form_that_cannot_hold_the_result_is_refused_before_training(tmp_path):
    tiny.checkpoint(tmp_path / "init")
    tagging.write_columns(tmp_path / "tags.txt", tagging.sentences(8))
    words = [*TRAIN[:-1], "--train_file=HOME/tags.txt", "--doc_stride=8", "--output_dir=HOME/out"]
    for form, message in (("keras_hub", "must be an encoder or a text classifier; got a model for TokenCl"),
                          ("onnx", "--save_format must be one or more of bert_tf, hugg")):  # fmt: skip
        (result,) = run_programs("run_tagger", [at(tmp_path, [*words, f"--save_format={form}"])])
        assert result["status"] == 1 and message in result["log"] and "Traceback" not in result["log"]
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_program_speaks_of_flags(tmp_path):
    writers.write_model(tmp_path, "bert_tf", models.model("bert-odd", "text"))
    (tmp_path / "to").mkdir()
    words = [f"--from={tmp_path}", f"--to={tmp_path}/to/new", "--format=keras_hub"]
    refused, written = run_programs("convert", [words, [*words, "--leave_out=hidden_act"]])
    assert refused["status"] == 1 and "drop a setting with --leave_out" in refused["log"]
    assert "Traceback" not in refused["log"]
    assert written["status"] == 0 and "  setting     hidden_act: 'gelu' before, 'gelu_tanh' after" in written["log"]
    assert (tmp_path / "to" / "new" / "task.weights.h5").exists()


def _train(home):
    """Trains one model of each kind; returns what each program said."""
    tiny.checkpoint(home / "init")
    rows = tiny.texts(64, names=("bad", "good"))
    tiny.write_tsv(home / "texts.tsv", [(text, str(int(label == "good"))) for text, label in rows])
    tiny.write_tsv(home / "pairs.tsv", [(text, "it is", label) for text, label in rows], "one\ttwo\tlabel")
    tagging.write_columns(home / "tags.txt", tagging.sentences(48))
    squad.write(home / "squad.json", squad.questions(48))
    said = {}
    for program in dict.fromkeys(program for program, _ in CASES.values()):
        cases = {case: words for case, (name, words) in CASES.items() if name == program}
        lines = [at(home, [*TRAIN, *words, f"--output_dir=HOME/{case}"]) for case, words in cases.items()]
        said |= dict(zip(cases, run_programs(program, lines), strict=True))
    (home / "material").mkdir()
    pretraining.write_material(home / "material", ["train"])
    words = pretraining.arguments(home / "material", "--num_train_steps=6", "--save_format=huggingface,bert_tf",
                                  f"--output_dir={home}/masked_lm")  # fmt: skip
    return said | {"masked_lm": run_programs("run_pretraining", [words])[0]}


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Returns the folder with the runs, and case -> what torch Transformers found in the directory."""
    home = tmp_path_factory.mktemp("home")
    for case, result in _train(home).items():
        assert result["status"] == 0, (case, result["log"][-3000:])
        assert "written, all read back bit-identical" in result["log"]
        (home / "torch" / case).mkdir(parents=True)
        (home / "torch" / case / "model").symlink_to(home / case / "huggingface")
        texts = [TEXTS, SECOND] if case in ("pair", "squad") else [TEXTS]
        given = json.dumps({"texts": texts, "length": LENGTH})
        (home / "torch" / case / "given.json").write_text(given, encoding="utf-8")
    code = (pathlib.Path(__file__).parent / "torch_reads.py").read_text(encoding="utf-8")
    other_envs.run(other_envs.torch_python(), code, home / "torch")
    return home, json.loads((home / "torch" / "found.json").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_transformers_gives_the_task_s_numbers(read, case):
    home, found = read[0] / case, read[1][case]
    description = load_description([str(home)])
    task = read_task(str(home), description.config).task
    model = task.build_model()
    assign_weights(home, model.variables, heads.unused(task))
    rows = description.tokenizer(TEXTS, SECOND if case in ("pair", "squad") else None, max_seq_length=LENGTH)
    values = json.loads((home / "huggingface" / "config.json").read_text(encoding="utf-8"))
    assert values["architectures"] == [CLASSES[case]]
    assert not any(found["info"].values())
    np.testing.assert_array_equal(found["ids"], rows["input_ids"])
    ours, real = model(rows), rows["input_mask"].numpy().astype(bool)
    ours = ours if isinstance(ours, dict) else {"logits": ours}
    for name, true in ours.items():
        value, true = np.array(found["outputs"][name]), true.numpy()
        value, true = (value[real], true[real]) if case in ("tagger", "squad") else (value, true)
        assert np.abs(value - true).max() <= 1e-5 * max(1, np.abs(true).max())
    if task.labels:
        assert found["labels"] == task.labels
    problems = {"regression": "regression", "text": "single_label_classification"}
    assert values.get("problem_type") == problems.get(case, values.get("problem_type"))


@pytest.mark.slow
def test_a_pretrained_model_fills_in_as_ours_does(read):
    home, found = read[0] / "masked_lm", read[1]["masked_lm"]
    assert not any(found["info"].values())
    answers = list(Filler(str(home), top_k=3)(["the [MASK] is"]))
    again = list(Filler(str(home / "huggingface"), top_k=3)(["the [MASK] is"]))
    assert answers == again


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, "masked_lm"])
def test_the_result_of_a_run_is_no_larger_than_its_weights(read, case):
    whole, weights = (
        max(folder.glob("model.ckpt-*.data-*"), key=lambda path: int(path.stem.split("-")[1])).stat().st_size
        for folder in (read[0] / case, read[0] / case / "bert_tf")
    )
    assert 0.8 * weights < whole < 1.2 * weights
