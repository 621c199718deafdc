"""bert-tf model edit as it is called, and adapters of the scripts: from a training run to a merged model, exported."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoints.readers import read_arrays
from bert_tf.utils.files import is_temporary
from tests import tiny
from tests.scripts import Cases, files, run_programs

pytestmark = pytest.mark.slow

LABELS = ("no", "yes")
POSITIONS = "bert/embeddings/position_embeddings"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with `base`, and `run`: trained from it with adapters and exported; and what became of each command."""
    folder = tmp_path_factory.mktemp("edit_model")
    base = tiny.checkpoint(folder / "base")
    tiny.checkpoint(folder / "wide", intermediate_size=48)
    tiny.checkpoint(folder / "deep", num_hidden_layers=2)
    train = tiny.write_tsv(folder / "train.tsv", tiny.texts(24, names=LABELS))
    common = [f"--train_file={train}", "--max_seq_length=20", f"--init_checkpoint={base}"]
    random = [f"--bert_config_file={base}/bert_config.json", f"--vocab_file={base}/vocab.txt"]
    learn = ["--train_batch_size=8", "--num_train_epochs=1", "--learning_rate=0.01", "--lora_rank=2", "--lora_alpha=4"]
    cases = run_programs("run_classifier", [
        [*common, *learn, "--do_train", "--do_export", f"--output_dir={folder}/run"],
        [*common[:2], *random, *learn, "--do_train", f"--output_dir={folder}/x"],
        [*common, "--lora_alpha=3", "--do_train", f"--output_dir={folder}/x"],
        [*common, *learn, "--do_train", "--reinit_layers=1", f"--output_dir={folder}/x"],
        [*common, *learn, "--do_train", "--lora_targets=query,words", f"--output_dir={folder}/x"],
    ])  # fmt: skip
    return folder, cases


@pytest.fixture(scope="module")
def results(place):
    """{name of its output directory: result} of surgery."""
    f, _ = place
    table = {
        "merged": [f"--model={f}/base", f"--adapter={f}/run/adapter"],
        "lean": [f"--model={f}/deep", "--prune_heads=0:1;1:0", "--layers=1", "--max_position_embeddings=48"],
        "mean": [f"--model={f}/run", f"--average={f}/merged,{f}/run/model.ckpt-3"],
        "nothing": [f"--model={f}/base"],
        "unlike": [f"--model={f}/base", f"--average={f}/wide"],
        "words": [f"--model={f}/base", "--prune_heads=0-1"],
        "short": [f"--model={f}/run", "--max_position_embeddings=16"],
        "base": [f"--model={f}/run", "--layers=0"],
    }
    cases = run_programs("edit_model", [[*words, f"--output_dir={f}/{name}"] for name, words in table.items()])
    return dict(zip(table, cases, strict=True))


def test_a_run_keeps_its_adapters(place):
    folder, cases = place
    assert cases[0]["status"] == 0, cases[0]["log"]
    assert sorted(os.listdir(folder / "run" / "adapter")) == [
        "adapter_config.json", "adapter_model.safetensors", "labels.txt", "task.json"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (1, "--lora_rank=2 requires --init_checkpoint: without it"),
        (2, "--lora_alpha requires --lora_rank. Add --lora_rank, or remove --lora_alpha."),
        (3, "--lora_rank and --reinit_layers cannot be combined. Remove one."),
        (4, "--lora_targets must be distinct names from ['query', 'key', 'value', 'output']; got "),
    ],
)
def test_flags_that_contradict_each_other(place, case, message):
    result = place[1][case]
    assert result["status"] == 1 and not result["written"]
    assert message in result["log"]


def test_the_export_has_merged_weights(place):
    folder, _ = place
    bert = bert_tf.load(folder / "run")
    served = tf.saved_model.load(os.fspath(folder / "run" / "export" / "1"))
    assert not [variable.name for variable in served.weights if "lora" in variable.name]
    assert bert.config.lora is None and bert.labels == list(LABELS)
    texts = ["the film is good", "a dull story of people"]
    logits = bert.head(bert.encoder(bert.tokenizer(texts, max_seq_length=20))["pooled_output"]).numpy()
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    answer = served.signatures["serving_default"](text=tf.constant(texts))
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)


def test_merging_the_adapters_gives_what_the_run_holds(place, results):
    folder, _ = place
    assert results["merged"]["status"] == 0, results["merged"]["log"]
    merged, run = read_arrays(folder / "merged"), read_arrays(folder / "run")
    assert merged.keys() == run.keys()
    for name in run:
        np.testing.assert_array_equal(merged[name], run[name], err_msg=name)
    for file in ("labels.txt", "task.json", "vocab.txt", "tokenizer_config.json"):
        assert (folder / "merged" / file).read_bytes() == (folder / "run" / file).read_bytes()
    assert "parameters: 11,648 -> 11,714;" in results["merged"]["log"]


def test_several_operations_at_once(place, results):
    folder, _ = place
    log = results["lean"]["log"]
    assert results["lean"]["status"] == 0, log
    bert, arrays = bert_tf.load(folder / "lean"), read_arrays(folder / "deep")
    assert (bert.config.num_hidden_layers, bert.config.pruned_heads) == (1, {0: (0,)})
    values = {v.path: v.value.numpy() for v in bert.encoder.variables}
    np.testing.assert_array_equal(values[POSITIONS], np.concatenate([arrays[POSITIONS], arrays[POSITIONS][:16]]))
    kernel = "attention/self/query/kernel"
    np.testing.assert_array_equal(
        values[f"bert/encoder/layer_0/{kernel}"], arrays[f"bert/encoder/layer_1/{kernel}"][:, 16:]
    )
    for line in (
        "num_hidden_layers: 2 -> 1",
        "max_position_embeddings: 32 -> 48",
        "pruned_heads: None -> {0: (0,)}",
        f"{POSITIONS}: [32, 32] -> [48, 32]",
        f"bert/encoder/layer_N/{kernel}: [32, 32] -> [32, 16], N = 0",
    ):
        assert line in log, log


def test_the_mean_of_a_model_with_itself_is_the_model(place, results):
    folder, _ = place
    assert results["mean"]["status"] == 0, results["mean"]["log"]
    assert f"Not copied from {folder}/run: adapter, export, history.jsonl, " in results["mean"]["log"]
    mean, run = read_arrays(folder / "mean"), read_arrays(folder / "run")
    for name in run:
        np.testing.assert_array_equal(mean[name], run[name], err_msg=name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "Nothing to do: pass at least one of --average, --adapter, --prune_heads, --lay"),
        ("unlike", " have intermediate_size 64 and 48; remove one of them."),
        ("words", "--prune_heads must be numbers such as \"0:1,3;2:0\", each layer once; got '0-1'."),
        ("short", "--max_position_embeddings must cover the sequence length that the model was "
                  "trained with, 20 according to task.json in "),
        ("base", "--output_dir must not exist yet, or be an empty directory. HOME/base is in use; choose"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_and_leaves_nothing(place, results, name, message):
    folder, _ = place
    assert results[name]["status"] == 1 and not results[name]["written"]
    message = message.replace("HOME", str(folder))
    assert message in results[name]["log"] and "Traceback" not in results[name]["log"]
    assert name == "base" or not (folder / name).exists()
    assert not [path for path in pathlib.Path(folder).iterdir() if is_temporary(path.name)]


def test_nothing_is_left_where_the_disk_is_full(place):
    folder, _ = place
    words = [f"--model={folder}/base", "--layers=0", f"--output_dir={folder}/full"]
    with Cases("edit_model") as program:
        before = files(folder / "base")
        result = program.run(words, limit=10_000)
    assert result["status"] == 1 and "bert_model.ckpt could not be written: " in result["log"]
    assert not (folder / "full").exists() and files(folder / "base") == before
