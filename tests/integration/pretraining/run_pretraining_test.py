"""run_pretraining.py as a user runs it: records in, a model, scores and a page out."""

import dataclasses
import hashlib
import json
import os
import re

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoints.names.tf1 import TF1
from bert_tf.checkpoints.tf1 import read_tensors
from bert_tf.export.conversion.convert import convert_model
from bert_tf.inference.fill_mask import Filler
from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.electra_configs import to_electra_config
from bert_tf.runs.settings import PretrainingSettings
from bert_tf.training.history import read_history
from bert_tf.utils.settings import flags_of
from tests import tiny
from tests.integration.pretraining.support import arguments, results, run_cases
from tests.scripts import files, run, run_programs

KEYS = {  # of google-research/bert's eval_results.txt
    "global_step", "loss", "masked_lm_accuracy", "masked_lm_loss", "next_sentence_accuracy", "next_sentence_loss",
}  # fmt: skip
PREDICTED = {"masked_lm_loss", "next_token_loss"}  # where there is such a loss, there is a perplexity
STEPS = 60
NUMBERS = ("--weight_decay_rate=0.1", "--adam_beta2=0.98", "--clip_norm=0", "--dropout_prob=0.2")
WHOLE = (f"--num_train_steps={STEPS}", "--save_checkpoints_steps=30", *NUMBERS)
WITHOUT_SENTENCES = {"global_step", "loss", "masked_lm_accuracy", "masked_lm_loss"}
OF_REPLACED = {
    "global_step", "loss", "masked_lm_accuracy", "masked_lm_loss", "replaced_accuracy",
    "replaced_accuracy_majority_baseline", "replaced_loss", "replaced_precision", "replaced_recall", "replaced_share",
}  # fmt: skip
LEFT_TO_RIGHT = {"global_step", "loss", "next_token_accuracy", "next_token_loss"}
SHORT = ("--num_train_steps=4", "--save_checkpoints_steps=2", "--do_eval", "--max_eval_steps=2")

# Name -> (records, flags, keys of eval_results.txt).
VARIANTS = {
    "all at once": (
        "packed",
        ["--optimizer=lamb", "--schedule=trapezoid", "--precision=mixed_bfloat16", "--gradient_checkpointing",
         "--gradient_accumulation_steps=2", *NUMBERS],
        KEYS,
    ),
    "left to right": (
        "packed", ["--objective=left_to_right", "--optimizer=lamb", "--schedule=cosine", *NUMBERS], LEFT_TO_RIGHT,
    ),
    "left to right, all at once": (
        "packed",
        ["--objective=left_to_right", "--optimizer=lamb", "--schedule=cosine", "--precision=mixed_bfloat16",
         "--gradient_checkpointing", "--gradient_accumulation_steps=2", *NUMBERS],
        LEFT_TO_RIGHT,
    ),
    "left to right, alone": ("alone", ["--objective=left_to_right"], LEFT_TO_RIGHT),
    "left to right, with sentences": ("train", ["--objective=left_to_right"], LEFT_TO_RIGHT),
    "replaced tokens": ("train", ["--objective=electra", "--generator_size=0.5"], OF_REPLACED),
    "replaced tokens, all at once": (
        "packed",
        ["--objective=electra", "--precision=mixed_bfloat16", "--gradient_checkpointing",
         "--gradient_accumulation_steps=2", "--optimizer=lamb"],
        OF_REPLACED,
    ),
    "replaced tokens, masked as they are read": ("unmasked", ["--objective=electra", "--use_xla=true"], OF_REPLACED),
    "replaced tokens, float16": (
        "train",
        # The first steps overflow, until the scale of the loss is low enough; those do not count in the warm-up.
        ["--objective=electra", "--generator_size=0.5", "--precision=mixed_float16", "--num_warmup_steps=0"],
        OF_REPLACED,
    ),
    "replaced tokens, shared layers": (
        "train", ["--objective=electra", "--generator_size=0.5", "--bert_config_file=HOME/albert.json"], OF_REPLACED,
    ),
    "replaced tokens, phases": (
        "train",
        ["--objective=electra", "--generator_size=0.5", "--input_file=HOME/train.tfrecord,HOME/short.tfrecord",
         "--phases=16x2,32x2@8"],
        OF_REPLACED,
    ),
    "replaced tokens, mask decoder": (
        "packed", ["--objective=electra", "--generator_size=0.5", "--bert_config_file=HOME/disentangled.json"],
        OF_REPLACED,
    ),
    "mask decoder": (
        "packed",
        ["--gradient_checkpointing", "--precision=mixed_bfloat16", "--bert_config_file=HOME/disentangled.json"],
        KEYS,
    ),
    "rotary and local": (
        "packed",
        ["--gradient_checkpointing", "--precision=mixed_bfloat16", "--bert_config_file=HOME/rotary.json"],
        KEYS,
    ),
    "ALBERT": ("unmasked_swapped", ["--objective=albert", "--bert_config_file=HOME/albert.json"], KEYS),
    "RoBERTa": ("unmasked_alone", ["--objective=roberta", "--mask_token_prob=0.9"], WITHOUT_SENTENCES),
    "ERNIE": ("unmasked", ["--objective=ernie", "--phrase_file=HOME/phrases.list"], KEYS),
    "MLM alone": ("alone", [], WITHOUT_SENTENCES),
    "masked as they are read": ("unmasked", ["--masking=whole_word"], KEYS),
    "packed": ("packed", ["--schedule=polynomial"], KEYS),
    "LAMB": ("train", ["--optimizer=lamb"], KEYS),
    "bfloat16": ("train", ["--precision=mixed_bfloat16"], KEYS),
    "rematerialized": ("train", ["--gradient_checkpointing"], KEYS),
    "accumulated": ("train", ["--gradient_accumulation_steps=4"], KEYS),
    "averaged": ("train", ["--average_weights=0.5", "--schedule=trapezoid"], KEYS),
    "unguarded": ("train", ["--noskip_bad_steps"], KEYS),
    "XLA": ("train", ["--use_xla=true"], KEYS),
}  # fmt: skip


def _with_ours(keys):
    """Returns Google's keys and those that we write beside them."""
    commonest = {f"{name}_majority_baseline" for name in keys if name.endswith("_accuracy")}
    return keys | commonest | {name.replace("loss", "perplexity") for name in keys & PREDICTED}


def _variant(material, folder, name):
    records, flags, _ = VARIANTS[name]
    output = f"--output_dir={folder}/{name.replace(' ', '_').replace(',', '')}"
    flags = [flag.replace("HOME", str(material)) for flag in flags]
    changed = arguments(material, *SHORT, *flags, output, records=records)
    named = any(flag.startswith("--phases=") for flag in flags)  # they name the lengths, and add up to the steps
    return [flag for flag in changed if not (named and flag.startswith("--max_"))]


# What a run is continued with that it was not begun with -> what is said of it.
OTHERS = {
    "other pieces": "The records must be made with the model's vocabulary",
    "other sizes": "can only resume with the settings",
}


def _others(material, folder):
    pieces = [*tiny.VOCAB[:-2], tiny.VOCAB[-1], tiny.VOCAB[-2]]
    (folder / "other.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    tiny.config(dropout=0.1, num_hidden_layers=2).save(folder / "deeper.json")
    changes = (f"--vocab_file={folder}/other.txt", f"--bert_config_file={folder}/deeper.json")
    again = (*WHOLE, f"--output_dir={folder}/whole")
    return {name: arguments(material, *again, change) for name, change in zip(OTHERS, changes, strict=True)}


@pytest.fixture(scope="module")
def quick(material, tmp_path_factory):
    """The folder with all outputs, and what each run said; one process."""
    folder = tmp_path_factory.mktemp("run_pretraining")
    whole = arguments(
        material, *WHOLE, f"--output_dir={folder}/whole",
        f"--eval_file={material}/held_out.tfrecord", "--do_eval", "--max_eval_steps=4",
    )  # fmt: skip
    alone = [flag for flag in whole if not flag.startswith(("--do_train", "--input_file"))]
    cases = {"whole": whole, "again": [flag for flag in whole if flag != "--do_eval"]}
    cases["scored elsewhere"] = [*(flag for flag in alone if not flag.startswith("--output_dir")),
                                 f"--init_checkpoint={folder}/whole", f"--output_dir={folder}/new/scores"]  # fmt: skip
    cases["dry run"] = arguments(material, "--dry_run", "--recipe=bert_paper", f"--output_dir={folder}/dry")
    cases |= _others(material, folder)
    said = run_cases(cases)
    for name, result in said.items():
        assert result["status"] == (name in OTHERS), (name, result["log"])
    return folder, said


@pytest.fixture(scope="module")
def replaced(material, tmp_path_factory):
    """The folder of a run of replaced tokens, and what it said, its scoring alone, and one with another generator."""
    folder = tmp_path_factory.mktemp("replaced")
    flags = _variant(material, folder, "replaced tokens")
    scored = [flag for flag in flags if not flag.startswith(("--do_train", "--generator_size"))]
    another = [flag.replace("=0.5", "=0.25") for flag in flags]
    said = run_cases({"replaced tokens": flags, "scored": scored, "another generator": another})
    assert [result["status"] for result in said.values()] == [0, 0, 1], said
    return folder / "replaced_tokens", said


@pytest.fixture(scope="module")
def left_to_right(all_material, tmp_path_factory):
    """The folder of all outputs, and what the run said."""
    folder = tmp_path_factory.mktemp("left_to_right")
    (said,) = run_cases({"left to right": _variant(all_material, folder, "left to right")}).values()
    return folder, said


@pytest.fixture(scope="module")
def whole(quick):
    return quick[0] / "whole"


def test_google_s_results(whole):
    scores = results(whole)
    assert scores.keys() == _with_ours(KEYS) and scores["global_step"] == STEPS
    assert scores["masked_lm_perplexity"] == pytest.approx(np.exp(scores["masked_lm_loss"]), rel=1e-5)
    assert 0.5 <= scores["next_sentence_accuracy_majority_baseline"] < 1
    assert 0 < scores["masked_lm_accuracy_majority_baseline"] < 0.5
    assert scores["loss"] == pytest.approx(scores["masked_lm_loss"] + scores["next_sentence_loss"], rel=1e-5)
    assert 0.3 < scores["next_sentence_accuracy"] <= 1


def test_it_learns(whole):
    lines = read_history(whole / "history.jsonl")
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    parts = [line["masked_lm_loss"] + line["next_sentence_loss"] for line in lines if line["kind"] == "train"]
    assert parts == pytest.approx(losses, rel=1e-5)
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3
    assert np.mean(losses[-5:]) < np.log(len(tiny.VOCAB)) + np.log(2) - 0.4  # of guessing a piece and an answer
    scored = [(line["step"], line["masked_lm_loss"]) for line in lines if line["kind"] == "eval"]
    assert [step for step, _ in scored] == [30, STEPS]
    assert scored[1][1] < scored[0][1] < np.log(len(tiny.VOCAB)) - 0.4


def test_what_lies_in_the_directory(whole):
    kept = [f"model.ckpt-{step}.{kind}" for step in (0, 30, STEPS) for kind in ("data-00000-of-00001", "index")]
    others = ["bert_config.json", "checkpoint", "eval", "eval_files.json", "eval_results.txt", "history.jsonl"]
    others += ["report.html", "run.json", "tokenizer.json", "tokenizer_config.json", "train", "vocab.txt"]
    assert sorted(os.listdir(whole)) == sorted([*kept, *others])


def test_the_record_tells_all_values(whole, material):
    told = json.loads((whole / "run.json").read_text(encoding="utf-8"))
    settings = told["settings"]
    assert (settings["clip_norm"], settings["adam_beta1"], settings["optimizer"]) == (0, 0.9, "adamw")
    numbers = {name: told["identity"][name] for name in ("weight_decay_rate", "adam_beta2", "clip_norm")}
    assert numbers == {"weight_decay_rate": 0.1, "adam_beta2": 0.98, "clip_norm": 0}
    assert (told["identity"]["dropout_prob"], told["identity"]["adam_beta1"]) == (0.2, 0.9)
    deciding = [flag.name for flag in flags_of(PretrainingSettings) if flag.decides_result is True]
    assert {name: settings[name] for name in deciding}.items() <= told["identity"].items()
    # For fine-tuning the model keeps its own dropout.
    kept = EncoderConfig.load(whole)
    assert kept == EncoderConfig.load(material / "bert_config.json") and kept.hidden_dropout_prob == 0.1
    digests = {"data": material / "train.tfrecord", "vocabulary": material / "vocab.txt"}
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in digests.items()}
    assert told["data"]["train"][0]["sha256"] == hashes["data"]
    assert told["vocabulary"]["sha256"] == hashes["vocabulary"]


def test_a_recipe_is_told(quick):
    log = quick[1]["dry run"]["log"]
    assert "--recipe=bert_paper: " in log and "--dropout_prob=0.1" in log
    assert "Given settings that differ from --recipe=bert_paper: " in log and "--train_batch_size=16" in log


def test_the_page_tells_of_the_run(whole, material):
    page = (whole / "report.html").read_text(encoding="utf-8")
    for flag in ("--learning_rate", "--train_batch_size", "--input_file", "--do_train"):
        assert f">{flag}<" in page
    assert f"{material}/train.tfrecord" in page and 'aria-label="Loss"' in page
    assert "http://" not in page.replace("http://www.w3.org/", "") and "<script src" not in page


def test_the_directory_is_a_checkpoint(whole, material):
    bert = bert_tf.load(whole)
    assert bert.config == EncoderConfig.load(material / "bert_config.json")
    assert bert.tokenizer.vocab_size == len(tiny.VOCAB)
    saved = read_tensors(str(whole / f"model.ckpt-{STEPS}"))
    for variable in bert.encoder.variables:
        np.testing.assert_array_equal(variable.value.numpy(), saved[TF1.from_ours(variable.path)])


def test_a_finished_run_started_again_makes_no_step(quick):
    log = quick[1]["again"]["log"]
    assert f"Continuing this run from step {STEPS}: " in log and "examples/s" not in log


@pytest.mark.slow
def test_scoring_alone_gives_the_scores_of_the_run_and_knows_its_generator(replaced):
    folder, said = replaced
    log = said["scored"]["log"]
    assert "replaced_tokens: --generator_size=0.5" in log and "Continuing" not in log
    scores = [line for line in read_history(folder / "history.jsonl") if line["kind"] == "eval"]
    for name in OF_REPLACED - {"global_step"}:  # of the run, and then in the file of the scoring alone
        assert scores[0][name] == pytest.approx(results(folder)[name], rel=1e-5)


def test_scores_of_another_directory_s_model_go_where_there_was_none(quick, whole):
    assert quick[1]["scored elsewhere"]["status"] == 0, quick[1]["scored elsewhere"]["log"]
    assert sorted(os.listdir(quick[0] / "new" / "scores")) == ["eval_files.json", "eval_results.txt"]
    found, expected = results(quick[0] / "new" / "scores"), results(whole)
    assert {name: found[name] for name in KEYS - {"global_step"}} == pytest.approx(
        {name: expected[name] for name in KEYS - {"global_step"}}, rel=1e-5
    )


def _check(folder, name, said):
    assert said["status"] == 0, said["log"]
    output = folder / name.replace(" ", "_").replace(",", "")
    scores = results(output)
    assert scores.keys() == _with_ours(VARIANTS[name][2]) and scores["global_step"] == 4
    assert np.isfinite(list(scores.values())).all()
    before, after = (read_tensors(str(output / f"model.ckpt-{step}")) for step in (2, 4))
    for variable in ("bert/encoder/layer_0/output/dense/kernel", "bert/embeddings/word_embeddings"):
        assert np.abs(after[variable] - before[variable]).max() > 0


def _check_mask_decoder(folder):
    """The decoder's positions matter to the filled masks."""
    filler, text = Filler(folder, top_k=2), "the film [MASK] a story ."
    (before,) = filler([text])
    table = filler.model.layers[-1].masked_lm.position_embeddings
    table.assign(-5 * table)
    (after,) = filler([text])
    assert np.abs(np.subtract(before["probability"], after["probability"])).max() > 1e-4


def _check_albert(folder):
    """Its layers are one, and its table is narrow."""
    config = EncoderConfig.load(folder)
    weights = read_tensors(str(folder / "model.ckpt-4"))
    layers = {name.split("/")[2] for name in weights if name.startswith("bert/encoder/") and "adam" not in name}
    assert config.num_hidden_layers == 2 and layers == {"layer_0", "embedding_hidden_mapping_in"}
    assert weights["bert/embeddings/word_embeddings"].shape == (len(tiny.VOCAB), 16)
    assert bert_tf.load(folder).config == config


@pytest.mark.slow
def test_a_left_to_right_run(left_to_right, material):
    _check(left_to_right[0], "left to right", left_to_right[1])
    kept = EncoderConfig.load(left_to_right[0] / "left_to_right")
    assert kept == dataclasses.replace(EncoderConfig.load(material / "bert_config.json"), is_decoder=True)


@pytest.mark.slow
def test_phases_go_on_from_each_other(all_material, tmp_path):
    (said,) = run_cases({"phases": [flag for flag in arguments(
        all_material, f"--input_file={all_material}/train.tfrecord,{all_material}/short.tfrecord",
        "--phases=16x3,32x2@8",
        f"--output_dir={tmp_path}", "--do_eval", "--save_checkpoints_steps=2",
    ) if not flag.startswith("--max_")]}).values()  # fmt: skip
    assert said["status"] == 0 and "step 5/5" in said["log"], said["log"]
    assert results(tmp_path)["global_step"] == 5 and read_tensors(str(tmp_path / "model.ckpt-5"))  # whole
    steps = [line["step"] for line in read_history(tmp_path / "history.jsonl") if line["kind"] == "train"]
    assert len(steps) == 4


def test_a_dry_run_says_whether_it_fits_and_writes_nothing(quick):
    log = quick[1]["dry run"]["log"]
    assert re.search(r"^fits in memory +yes$", log, re.M) and re.search(r"^parameters +[\d,]+$", log, re.M)
    assert re.search(r"^tokens per step +512: 16 rows of 32$", log, re.M) and not (quick[0] / "dry").exists()


@pytest.mark.parametrize("name", OTHERS)
def test_other_sizes_or_pieces_do_not_continue_a_run(quick, name):
    said = quick[1][name]
    assert OTHERS[name] in said["log"]
    assert ("num_hidden_layers: 1 before, 2 now" in said["log"]) == (name == "other sizes")
    assert said["written"] == [] and quick[1]["whole"]["written"]


@pytest.mark.slow
def test_left_to_right_is_named_what_it_is_everywhere(left_to_right):
    folder = left_to_right[0] / "left_to_right"
    names = {name for line in read_history(folder / "history.jsonl") for name in line}
    assert {"next_token_accuracy", "next_token_loss"} <= names and not any("masked_lm" in name for name in names)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Evaluation next token accuracy" in page and not re.search("masked.lm", page, re.I)
    assert bert_tf.load(folder).config.is_decoder


@pytest.mark.slow
def test_a_left_to_right_model_fills_no_blanks(left_to_right):
    with pytest.raises(ValueError, match="requires a masked LM, but .*left_to_right"):
        Filler(left_to_right[0] / "left_to_right")


@pytest.mark.slow
def test_replaced_tokens_leave_a_discriminator_and_a_generator(replaced, material, tmp_path):
    folder, _ = replaced
    bert = bert_tf.load(folder)
    assert bert.config == to_electra_config(EncoderConfig.load(material / "bert_config.json"))
    assert {"cls/replaced_tokens/output_bias", "generator/cls/predictions/output_bias"} <= bert.others.keys()
    filler = Filler(folder / "generator", top_k=2)
    assert filler.task.config.hidden_size == 16 and len(list(filler(["the film [MASK] a story ."]))) == 1
    table = "bert/embeddings/word_embeddings"
    saved = [read_tensors(str(path)) for path in (folder / "model.ckpt-4", folder / "generator" / "model.ckpt-0")]
    np.testing.assert_array_equal(saved[0][table], saved[1][table])
    proof = convert_model(folder, tmp_path / "huggingface", "huggingface")
    assert all(path.startswith("generator/") for path in proof.not_held) and len(proof.not_held) == 23
    written = json.loads((tmp_path / "huggingface" / "config.json").read_text(encoding="utf-8"))
    assert (written["model_type"], written["architectures"]) == ("electra", ["ElectraForPreTraining"])
    train = [line for line in read_history(folder / "history.jsonl") if line["kind"] == "train"]
    assert all(line["loss"] == pytest.approx(line["masked_lm_loss"] + 50 * line["replaced_loss"], rel=1e-4)
               for line in train)  # fmt: skip


@pytest.mark.slow
def test_a_run_of_replaced_tokens_goes_on_with_its_own_generator_alone(replaced):
    said = replaced[1]["another generator"]
    assert "can only resume with" in said["log"] and "generator intermediate_size: 32 before" in said["log"]


@pytest.mark.slow
def test_every_variant(all_material, tmp_path):
    said = run_cases({name: _variant(all_material, tmp_path, name) for name in VARIANTS})
    for name in VARIANTS:
        _check(tmp_path, name, said[name])
    _check_albert(tmp_path / "ALBERT")
    _check_mask_decoder(tmp_path / "mask_decoder")
    assert "Phrases: 2; skipped 1 more that contain tokens not in the vocabulary." in said["ERNIE"]["log"]
    assert "No phrase of" not in said["ERNIE"]["log"]


@pytest.mark.slow
def test_the_model_answers_as_the_readme_says(whole):
    likely, odd = "the film is a story of people .", "the people a film story of is ."
    (filled,) = run_programs("fill_mask", [[f"--model={whole}", "the film [MASK] a story ."]])
    (scored,) = run_programs("score_text", [[f"--model={whole}", likely, odd]])
    assert filled["status"] == scored["status"] == 0 and "film is a story" in filled["log"].replace("[MASK]", "is")
    totals = {text: float(line.split()[0]) for line in scored["log"].splitlines() for text in (likely, odd)
              if line.endswith(f"  {text}")}  # fmt: skip
    assert totals[likely] > totals[odd]


@pytest.mark.slow
def test_a_classifier_starts_from_the_directory(whole, tmp_path):
    tiny.write_tsv(tmp_path / "train.tsv", tiny.texts(64))
    before = files(whole)
    log = run(
        [f"--train_file={tmp_path}/train.tsv", f"--init_checkpoint={whole}", f"--output_dir={tmp_path}/out",
         "--do_train", "--max_seq_length=16", "--train_batch_size=8", "--num_train_epochs=1"],
        "run_classifier.py",
    )  # fmt: skip
    assert f"model.ckpt-{STEPS}" in log and "random weights" not in log
    assert (tmp_path / "out" / "model.ckpt-8.index").exists() and files(whole) == before
