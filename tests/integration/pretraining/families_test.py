"""Pretraining on a domain from text, for every family: its tokenizer, its special tokens, its loss."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.loading import load_description
from bert_tf.checkpoints.names.rows import WORDS
from bert_tf.models import family_registry
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.corpus.job import CorpusJob
from bert_tf.pretraining.corpus.local_run import create_pretraining_data
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
from tests import other_envs, parity
from tests.pretraining import families

LENGTH, PREDICTIONS = 24, 4
_SETTINGS = {"max_seq_length": LENGTH, "max_predictions_per_seq": PREDICTIONS, "num_train_steps": 3,
             "num_warmup_steps": 1, "train_batch_size": 8, "learning_rate": 1e-2}  # fmt: skip
_RECENT = ("nomic_bert", "new")  # whose classes are of Transformers 5


def _records(folder, model, name="train", **options) -> str:
    """Makes NAME.tfrecord of text with the tokenizer of a model, and returns its path."""
    (folder / "text.txt").write_text(families.text(), encoding="utf-8")
    made = {"max_seq_length": LENGTH, "max_predictions_per_seq": PREDICTIONS, "dupe_factor": 1,
            "sentence_objective": "none", "masking": "whole_word", **options}  # fmt: skip
    path = str(folder / f"{name}.tfrecord")
    job = CorpusJob([str(folder / "text.txt")], ["sentences"], [path], do_lower_case=None, model_directory=str(model),
                    options=CorpusOptions(**made))  # fmt: skip
    create_pretraining_data(job)
    return path


@pytest.mark.slow
def test_continued_on_text_with_byte_bpe(tmp_path):
    """RoBERTa: from text to a model; records of another tokenizer are refused."""
    model = families.model_directory(tmp_path, "roberta")
    path, tokenizer = _records(tmp_path, model, dynamic_masking=True, packing=True), load_description([model]).tokenizer
    rows = Records.of([path]).sample(path, 8)
    ids, mask, numbers = (rows[name].numpy() for name in ("input_ids", "input_mask", "sentence_ids"))
    begins = (np.diff(numbers, axis=1, prepend=0) > 0) & (mask > 0)
    assert (ids[begins] == tokenizer.id_of("<s>")).all() and (ids[mask == 0] == tokenizer.pad_id).all()
    assert (ids == tokenizer.id_of("</s>")).sum() == begins.sum()
    expected = tokenizer.tokenize(["the film"]).to_list()
    run = bert_tf.pretrain(path, output_dir=tmp_path / "out", init_checkpoint=model, verbose=False,
                           objective="roberta", masking="whole_word", **_SETTINGS)  # fmt: skip
    assert run.num_steps == 3
    assert bert_tf.load(tmp_path / "out").tokenizer.tokenize(["the film"]).to_list() == expected
    (model / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    (model / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="must be made with the model's tokenizer, .* with `init_checkpoint`"):
        bert_tf.pretrain(path, output_dir=tmp_path / "other", init_checkpoint=model, verbose=False, **_SETTINGS)


def _batch_and_loss(folder, model) -> tuple[dict, list[float]]:
    """Returns a batch of records, and the loss of the model on it with the norm of its gradient for the words."""
    records = Records.of([_records(folder, model)])
    batch = next(iter(records.in_order(16)))
    config = load_description([model]).config
    task = PretrainingTask(config, "none")
    trained = task.build_model()
    assign_weights(model, trained.variables, family=config.model_type, allow_unmatched=("bert/pooler/.*",))
    with tf.GradientTape() as tape:
        outputs = trained({name: batch[name] for name in task.features}, training=False)
        loss = task.loss(outputs, batch, task.loss_normalizers(batch))
    (words,) = (variable for variable in trained.trainable_variables if variable.path == WORDS)
    gradient = tf.convert_to_tensor(tape.gradient(loss, words.value))
    return batch, [float(loss), float(tf.norm(gradient))]


def _losses_of_torch(folders, python=None) -> dict[str, list[float]]:
    """Returns the pairs of `_batch_and_loss` by torch, of models in folders, by the family."""
    out = parity.run_torch("torch_masked_lm_loss.py", *folders.values(), python=python)
    return dict(zip(folders, json.loads(out.splitlines()[-1]), strict=True))


@pytest.mark.slow
def test_the_loss_of_a_step_is_that_of_torch(tmp_path):
    """Of every family, on a batch of its own records, from a directory that Transformers reads."""
    assert families.FAMILIES.keys() == family_registry.FAMILIES.keys()
    found, folders = {}, {}
    for model_type in families.FAMILIES:
        (tmp_path / model_type).mkdir()
        model = families.model_directory(tmp_path / model_type, model_type, num_hidden_layers=2)
        batch, found[model_type] = _batch_and_loss(tmp_path / model_type, model)
        np.savez(model / "batch.npz", **{name: value.numpy() for name, value in batch.items()})
        folders[model_type] = model
    expected = _losses_of_torch({name: folder for name, folder in folders.items() if name not in _RECENT})
    expected |= _losses_of_torch({name: folders[name] for name in _RECENT}, other_envs.transformers_5_python())
    without = []
    for model_type, pair in expected.items():
        assert found[model_type][0] == pytest.approx(pair[0], rel=1e-5), model_type
        if np.isnan(pair[1]):
            without.append(model_type)
        else:
            assert found[model_type][1] == pytest.approx(pair[1], rel=1e-4), model_type
    assert set(without) <= {"modernbert"}, "whose windows of padding alone give no gradient in torch"


@pytest.mark.slow
@pytest.mark.parametrize("model_type", families.FAMILIES)
@pytest.mark.parametrize(("objective", "options"), [
    ("masked_lm", {}), ("masked_lm", {"packing": True, "dynamic_masking": True}),
    ("electra", {"dynamic_masking": True}), ("albert", {"sentence_objective": "sop", "masking": "ngram"}),
], ids=["masked", "packed", "electra", "albert"])  # fmt: skip
def test_each_objective_of_each_family(tmp_path, model_type, objective, options):
    if objective == "albert" and family_registry.family(model_type).sentence_objective == "none":
        pytest.skip(f"{model_type} is pretrained without pairs of sentences")
    model = families.model_directory(tmp_path, model_type)
    train = _records(tmp_path, model, **options)
    held_out = _records(tmp_path, model, "held_out", **options, random_seed=2)
    more = {"generator_size": 0.5} if objective == "electra" else {}
    run = bert_tf.pretrain(train, eval_file=held_out, output_dir=tmp_path / "out", init_checkpoint=model, verbose=False,
                           objective=objective, eval_batch_size=8, max_eval_steps=3, **_SETTINGS, **more)  # fmt: skip
    assert run.num_steps == 3 and np.isfinite(run.metrics["loss"])
    again = bert_tf.load(tmp_path / "out")
    assert again.tokenizer.vocab == load_description([model]).tokenizer.vocab
    if objective == "electra":
        assert bert_tf.load(pathlib.Path(tmp_path, "out", "generator")).tokenizer.vocab == again.tokenizer.vocab
