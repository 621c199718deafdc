"""The commands of quick pretraining: their flags are those of the programs, and the recipe's."""


import pytest

from bert_tf.cli.commands import find, load_command
from bert_tf.pretraining.quick.commands import Commands
from bert_tf.pretraining.quick.plan import TRIAL_STEPS
from bert_tf.pretraining.quick.recipe import SizeRecipe
from bert_tf.runs import pretraining_recipes
from tests.pretraining.quick import support


def _commands(taught=False, depth=0, **given):
    base = {"input_file": ["corpus/", "more.txt"], "output_dir": "small", "precision": "float32"}
    return Commands(support.options(**base | given), support.recipe(taught), depth)


def _all(commands):
    steps = len(commands.recipe.phases)
    return [*commands.before_training().values(), commands.calibration(), commands.training([100] * steps)]


@pytest.mark.parametrize("values", [pretraining_recipes.SMALL, pretraining_recipes.SMALL_TAUGHT])
def test_the_programs_have_the_flags_of_the_recipes(values):
    given = {"teacher": "large"} if "layers" in values else {"do_lower_case": False, "eval_file": ["held.txt"]}
    given |= {"input_file": ["a"], "output_dir": "small", "document_start": "CHAPTER"}
    commands = Commands(support.options(**given), SizeRecipe.of(values), 12)
    for command in _all(commands):
        table = {flag.name: flag for flag in load_command(find(command.program.split()).name).FLAGS}
        for name, value in command.flags.items():
            assert name in table, (command.program, name)
            assert not table[name].choices or value in table[name].choices or name == "precision"
            assert table[name].kind != "bool" or isinstance(value, bool), name


def test_a_vocabulary_is_learned_and_records_are_made_of_each_length():
    steps = _commands().before_training()
    assert list(steps) == ["vocabulary", "records of 16", "records of 32"]
    vocabulary, short, long = (step.words()[3:] for step in steps.values())
    assert vocabulary == [
        "vocab", "train", "--input_file=corpus/,more.txt", "--output_file=small/work/vocab.txt", "--vocab_size=30000",
    ]  # fmt: skip
    assert {"--max_seq_length=16", "--vocab_file=small/work/vocab.txt", "--dynamic_masking"} < set(short)
    assert set(short) ^ set(long) == {
        "--max_seq_length=16", "--max_seq_length=32", "--output_file=small/work/records-16.tfrecord",
        "--output_file=small/work/records-32.tfrecord",
    }  # fmt: skip


def test_the_training_reads_what_was_made_and_the_recipe():
    words = _commands(seed=3).training([600, 400]).words()[3:]
    assert words[:2] == ["pretrain", "run"]
    assert {
        "--input_file=small/work/records-16.tfrecord,small/work/records-32.tfrecord", "--output_dir=small",
        "--do_train", "--bert_config_file=small/work/bert_config.json", "--vocab_file=small/work/vocab.txt", "--seed=3",
        "--phases=16x600@8,32x400@4", "--num_warmup_steps=150", "--max_predictions_per_seq=5", "--masked_lm_prob=0.3",
        "--save_checkpoints_steps=50", "--precision=float32", "--deterministic", "--dropout_prob=0.0",
    } < set(words)  # fmt: skip
    assert not [word for word in words if "eval" in word or "lower" in word]


def test_the_calibration_is_the_training_but_for_its_length_and_place():
    commands = _commands(eval_file=["held.txt"])
    trial, training = commands.calibration(), commands.training([600, 400])
    differ = {name for name in training.flags if training.flags[name] != trial.flags[name]}
    assert differ == {"output_dir", "phases", "num_warmup_steps", "save_checkpoints_steps"}
    assert trial.flags.keys() == training.flags.keys() and trial.fresh == trial.flags["output_dir"]
    assert trial.flags["num_warmup_steps"] == 2 * TRIAL_STEPS // 5, "of short runs it is a fifth"


def test_held_out_text_becomes_records_of_the_last_length():
    steps = _commands(eval_file=["held.txt"]).before_training()
    flags = steps["held-out records"].flags
    assert flags["input_file"] == ["held.txt"] and flags["max_seq_length"] == 32
    scored = _commands(eval_file=["held.txt"]).training([600, 400]).words()
    assert {"--do_eval", "--eval_file=small/work/held_out.tfrecord"} < set(scored)


def test_what_says_how_text_is_read_reaches_all_that_read_it():
    commands = _commands(language="de", text_column="body", do_lower_case=False, eval_file=["held.txt"])
    for command in commands.before_training().values():
        assert {"--language=de", "--text_column=body", "--do_lower_case=false"} < set(command.words())
    assert "--do_lower_case=false" in commands.training([600, 400]).words()


def test_a_vocabulary_of_the_user_is_taken_as_it_is():
    commands = _commands(vocab_file="mine/vocab.txt")
    assert "vocabulary" not in commands.before_training()
    assert commands.training([600, 400]).flags["vocab_file"].as_posix() == "mine/vocab.txt"


def test_a_student_begins_as_layers_of_its_teacher():
    commands = _commands(taught=True, depth=6, teacher="large")
    steps = commands.before_training()
    assert list(steps) == ["records of 16", "first weights"]
    assert "--init_checkpoint=large" in steps["records of 16"].words()
    assert steps["first weights"].words()[3:] == [
        "model", "edit", "--model=large", "--layers=0,5", "--output_dir=small/work/first_weights",
    ]  # fmt: skip
    words = commands.training([100]).words()
    assert {"--teacher=large", "--init_checkpoint=small/work/first_weights", "--objective=distillation"} < set(words)
    assert not [word for word in words if word.startswith(("--bert_config_file", "--vocab_file", "--max_pred"))]
