"""Published folders of families that come with code: embedded as they say, trained further, exported, read by torch."""

import json

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf.inference.sentence_encoder import SentenceEncoder
from tests import other_envs, parity, tiny
from tests.integration.families_test import TOKENIZERS
from tests.processor import COMPUTES_INT8
from tests.scripts import run_programs
from tests.tasks.embedding import support as embeddings
from tests.tasks.multiple_choice import support as choices
from tests.tasks.program_tests import json_lines
from tests.tasks.reranking import support as rankings

TEXTS = ["a great film", "the dull story of people and music, and music", "it"]
_PROMPT = "see : "  # of words in the vocabulary


def _folder(folder, case, class_name, pooling):
    """Writes the encoder of a golden as a sentence-transformers folder, with bare names, as it is published."""
    golden = parity.GOLDENS / "families" / case
    folder.mkdir()
    weights = {name: array.astype(np.float32) for name, array in load_file(golden / "model.safetensors").items()}
    fronts = ("bert.", "new.")
    bare = {name.split(".", 1)[1]: array for name, array in weights.items() if name.startswith(fronts)}
    save_file(bare, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((golden / "config.json").read_text(encoding="utf-8")) | {"architectures": [class_name]}
    modules = [{"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
               for n, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling")))]  # fmt: skip
    files = {
        "config.json": config, "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": 12, f"pooling_mode_{pooling}": True},
        "sentence_bert_config.json": {"max_seq_length": 8192, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": {"query": _PROMPT, "document": ""}},
    }  # fmt: skip
    (folder / "1_Pooling").mkdir()
    for name, values in files.items():
        (folder / name).write_text(json.dumps(values), encoding="utf-8")
    return config


def _wordpiece(folder, size):
    words = [*tiny.VOCAB, ":", "see", *(f"w{n}" for n in range(size - len(tiny.VOCAB) - 2))]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(words)) + "\n", encoding="utf-8")


_MEAN = """
import json, sys, torch, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
model, said = transformers.AutoModel.from_pretrained(sys.argv[1], output_loading_info=True)
assert not said["missing_keys"] and not said["mismatched_keys"], said
assert all("pooler" in name for name in said["unexpected_keys"]), said
rows = tokenizer(json.loads(sys.argv[2]), padding=True, return_tensors="pt")
with torch.no_grad():
    states, mask = model.eval()(**rows).last_hidden_state, rows["attention_mask"][..., None]
print(json.dumps(((states * mask).sum(1) / mask.sum(1)).tolist()))
"""


@pytest.mark.slow
def test_an_embedder_of_nomic_bert_is_torch_s_before_and_after_training(tmp_path):
    start = tmp_path / "published"
    config = _folder(start, "nomic", "NomicBertModel", "mean_tokens")
    # The configuration that Transformers 5 reads has its own keys; those of the published file mean its largest model.
    _wordpiece(start, config["vocab_size"])
    bert_tf.save(bert_tf.load(start), tmp_path / "again", "huggingface")
    written = json.loads((tmp_path / "again" / "config.json").read_text(encoding="utf-8"))
    assert written["auto_map"] == config["auto_map"] and written["n_embd"] == written["hidden_size"] == 12
    assert load_file(start / "model.safetensors").keys() <= load_file(tmp_path / "again" / "model.safetensors").keys()
    for name, prompt in (("query", _PROMPT), ("document", "")):
        found = SentenceEncoder(start, prompt_name=name)(TEXTS)
        texts = json.dumps([prompt + text for text in TEXTS])
        true = other_envs.run(other_envs.transformers_5_python(), _MEAN, tmp_path / "again", texts)
        np.testing.assert_allclose(found, json.loads(true.splitlines()[-1]), atol=1e-5)

    tiny.write_jsonl(tmp_path / "pairs.jsonl", embeddings.pairs(16), ["text_a", "text_b"])
    tiny.write_jsonl(tmp_path / "texts.jsonl", [(text,) for text in TEXTS], ["text"])
    trained, asked = run_programs("run_embedder", [
        [f"--init_checkpoint={start}", "--do_train", f"--train_file={tmp_path}/pairs.jsonl", "--do_export", "--seed=1",
         "--export_for=cpu", "--max_seq_length=20", "--train_batch_size=8", "--num_train_epochs=2", "--use_xla=true",
         "--learning_rate=3e-3", "--normalize=false", "--save_format=sentence_transformers",
         f"--output_dir={tmp_path}/out"],
        [f"--init_checkpoint={tmp_path}/out", "--do_predict", f"--predict_file={tmp_path}/texts.jsonl",
         "--text_column=text", f"--output_dir={tmp_path}/asked"],
    ])  # fmt: skip
    assert not trained["status"] and not asked["status"], (trained["log"], asked["log"])
    ours = np.array([line["embedding"] for line in json_lines(tmp_path / "asked" / "predictions.jsonl")])
    served = np.stack([each["embedding"] for each in bert_tf.Predictor(tmp_path / "out" / "export")(TEXTS)])
    np.testing.assert_allclose(served, ours, atol=1e-5)
    folder = tmp_path / "out" / "sentence_transformers"
    true = other_envs.run(other_envs.transformers_5_python(), _MEAN, folder, json.dumps(TEXTS))
    np.testing.assert_allclose(json.loads(true.splitlines()[-1]), ours, atol=1e-5)
    assert np.abs(ours - SentenceEncoder(start, prompt_name="document")(TEXTS)).max() > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("case, class_name", [("nomic", "NomicBertModel"), ("gte", "NewModel")])
def test_every_task_is_trained_and_exported(case, class_name, tmp_path):
    start, length = tmp_path / "published", 40
    config = _folder(start, case, class_name, "mean_tokens")
    key = "n_positions" if "n_positions" in config else "max_position_embeddings"  # there is no table of them
    (start / "config.json").write_text(json.dumps(config | {key: 64}), encoding="utf-8")
    _wordpiece(start, config["vocab_size"])
    texts = [f"{'great' if n % 3 else 'dull'} film {'and music ' * (n % 5)}" for n in range(32)]
    tiny.write_tsv(tmp_path / "train.tsv", [(text, str(int("great" in text))) for text in texts])
    tags = ("\n".join(f"{word} {'B-X' if word == 'film' else 'O'}" for word in text.split()) for text in texts)
    (tmp_path / "tags.txt").write_text("\n\n".join(tags) + "\n", encoding="utf-8")
    answer = {"text": "great film", "answer_start": 2}
    asked = [{"id": str(n), "question": "what?", "answers": [answer]} for n in range(8)]
    data = [{"title": "a", "paragraphs": [{"context": "a great film and music.", "qas": asked}]}]
    (tmp_path / "squad.json").write_text(json.dumps({"version": "1", "data": data}), encoding="utf-8")
    rankings.write_jsonl(tmp_path / "ranked.jsonl", rankings.queries(16))
    choices.write_jsonl(tmp_path / "chosen.jsonl", choices.questions(16, counts=(2, 5)))
    common = [f"--init_checkpoint={start}", "--do_train", "--do_export", "--export_for=cpu", "--seed=1",
              f"--max_seq_length={length}", "--train_batch_size=8", "--learning_rate=3e-3"]  # fmt: skip
    table = [f"--train_file={tmp_path}/train.tsv", f"--predict_file={tmp_path}/train.tsv", "--do_predict",
             "--num_train_epochs=4"]  # fmt: skip
    runs = {
        "run_classifier": {"text": table, "lora": [*table, "--lora_rank=2"],
                           **({"int8": [*table, "--export_dtype=int8"]} if COMPUTES_INT8 else {})},
        "run_tagger": {"tags": [f"--train_file={tmp_path}/tags.txt", "--num_train_epochs=1"]},
        "run_squad": {"spans": [f"--train_file={tmp_path}/squad.json", "--num_train_epochs=1", "--doc_stride=16",
                                "--max_query_length=8"]},
        "run_reranker": {"ranked": [f"--train_file={tmp_path}/ranked.jsonl", "--num_train_epochs=1"]},
        "run_multiple_choice": {"chosen": [f"--train_file={tmp_path}/chosen.jsonl", "--num_train_epochs=1"]},
    }  # fmt: skip
    for program, named in runs.items():
        for said in run_programs(program, [[*common, *more, f"--output_dir={tmp_path}/{name}"]
                                           for name, more in named.items()]):  # fmt: skip
            assert not said["status"], said["log"]
    for name, (most, spread) in {"text": (1e-5, 0.1), "lora": (1e-5, 1e-3), "int8": (0.02, 0.1)}.items():
        if name not in runs["run_classifier"]:
            continue
        lines = json_lines(tmp_path / name / "predictions.jsonl")
        expected = np.array([[*line["probabilities"].values()] for line in lines])
        serve = tf.saved_model.load(str(tmp_path / name / "export" / "1")).signatures["serving_default"]
        found = serve(text=tf.constant(texts))["probabilities"].numpy()
        assert np.abs(found - expected).max() < most and np.ptp(expected[:, 1]) > spread, name
    inputs = {"tags": texts[0], "spans": ("what?", "a great film."), "ranked": ("film", ["a film", "music"]),
              "chosen": ("film", ["a film", "music"])}  # fmt: skip
    for name, given in inputs.items():
        (answer,) = bert_tf.Predictor(tmp_path / name / "export")([given])
        assert answer, name


@pytest.mark.slow
def test_an_embedder_of_gte_has_xlm_roberta_s_tokenizer(tmp_path):
    start = tmp_path / "published"
    config = _folder(start, "gte", "NewModel", "cls_token") | {"vocab_size": 304}
    (start / "config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = load_file(start / "model.safetensors")
    words = weights["embeddings.word_embeddings.weight"]
    weights["embeddings.word_embeddings.weight"] = np.concatenate([words, words[:104]])
    save_file(weights, start / "model.safetensors", {"format": "pt"})
    (start / "sentencepiece.bpe.model").write_bytes((TOKENIZERS / "unigram" / "spiece.model").read_bytes())
    settings = json.dumps({"tokenizer_class": "XLMRobertaTokenizerFast", "model_max_length": 8192})
    (start / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    bert = bert_tf.load(start)
    assert bert.tokenizer.template.pieces(2) == ("<s>", "</s>", "</s>", "</s>")
    found = SentenceEncoder(start, prompt_name="document")(["ab", "ab ab"])
    for text, vector in zip(["ab", "ab ab"], found, strict=True):
        row = {name: tf.constant(values) for name, values in bert.tokenizer([text], max_seq_length=20).items()}
        np.testing.assert_allclose(vector, bert.encoder(row)["sequence_output"][0, 0], atol=1e-5)
