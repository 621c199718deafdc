"""What is wrong from the first is said at once: nothing is made, and no program is started."""

import pytest

from bert_tf.pretraining.quick import inputs
from bert_tf.pretraining.quick.commands import Commands
from bert_tf.pretraining.quick.run import pretrain_small
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny
from tests.pretraining.quick import support


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "text.txt").write_text("A film.\n")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "nothing").mkdir()
    for name, layers, pieces in (("teacher", 6, tiny.VOCAB), ("shallow", 2, tiny.VOCAB), ("mute", 6, None)):
        (tmp_path / name).mkdir()
        tiny.config(num_hidden_layers=layers).save(tmp_path / name / "bert_config.json")
        if pieces:
            (tmp_path / name / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    (tmp_path / "maskless.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    return tmp_path


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_file": "nothing"}, "nothing', a directory without files; add text to it"),
        ({"input_file": "nowhere"}, "matches no file"),
        ({"input_file": "empty.txt"}, "No text found in 1 file"),
        ({"eval_file": "nowhere"}, "matches no file"),
        ({"eval_file": "text.txt"}, r"`eval_file` must not contain training text, but .*text\.txt"),
        ({"vocab_file": "nowhere"}, "Vocabulary file not found"),
        ({"vocab_file": "maskless.txt"}, r"must contain \[MASK\]"),
        ({"teacher": "mute"}, r"`teacher` must be a model directory with a configuration and a tok"),
        ({"teacher": "nowhere"}, r"`teacher` must be a model directory with a configuration and a tok"),
        ({"tokenizer": "mute"}, r"`tokenizer` must be a model directory with a configuration and a tokenizer"),
        ({"teacher": "shallow"}, "`teacher` must have more than the 2 layers of its student. .* has 2"),
    ],
    ids=str,
)
def test_bad_input_is_refused(folder, given, message):
    given = {"input_file": "text.txt", "output_dir": "out"} | given
    files = {name: str(folder / value) for name, value in given.items() if isinstance(value, str)}
    files |= {name: [files[name]] for name in ("input_file", "eval_file") if name in files}
    children = support.Children(())
    with pytest.raises(ValueError, match=message):
        pretrain_small(support.options(**given | files), support.recipe("teacher" in given), children.execute)
    assert not (folder / "out").exists() and children.called == []


def test_a_teacher_may_have_its_vocabulary_in_tokenizer_json(folder):
    """It counts where both are there, as for the teacher itself."""
    WordPieceTokenizer(folder / "teacher" / "vocab.txt").save(folder / "teacher")
    (folder / "teacher" / "vocab.txt").unlink()
    options = support.options(input_file=[str(folder / "text.txt")], teacher=str(folder / "teacher"))
    inputs.check_inputs(options, support.recipe(True))
    assert f"--init_checkpoint={folder}/teacher" in Commands(options, support.recipe(True), 6).before_training()[
        "records of 16"
    ].words()


def test_the_working_directory_is_not_a_part_of_a_run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    here = inputs.identity(support.options(input_file=["text.txt"], teacher="teacher"), support.recipe())
    monkeypatch.chdir(folder / "nothing")
    there = inputs.identity(support.options(input_file=["../text.txt"], teacher="../teacher"), support.recipe())
    assert here == there and here["input_file"] == [str(folder / "text.txt")]
    (folder / "text.txt").write_text("something else\n")
    there = inputs.identity(support.options(input_file=["../text.txt"], teacher="../teacher"), support.recipe())
    assert {name for name in here if here[name] != there[name]} == {"contents"}
