"""Real weights: what we make of texts is what each model's own runtime makes of them, and so are the top answers."""

import dataclasses
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.checkpoints.torch_bin import TorchBin
from bert_tf.models.config import EncoderConfig
from bert_tf.models.heads import ClassificationHead
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from tests import other_envs, real_models

TOLERANCE = 1e-4  # of the values themselves, whatever their size
WIDTH, MASKED = 160, 0.15  # pieces of a row at most; share of the pieces that become [MASK]


def _encoded(folder, rows):
    outputs = bert_tf.load(folder).encoder(rows)
    return {name: outputs[name] for name in ("sequence_output", "pooled_output")}


def _classified(folder, rows):
    bert = bert_tf.load(folder)
    return {"logits": bert.head(bert.encoder(rows)["pooled_output"])}


def _tagged(folder, rows):
    bert = bert_tf.load(folder)
    assert len(bert.labels) == bert.head.num_labels == 213
    return {"logits": bert.head(bert.encoder(rows)["sequence_output"])}


def _filled(folder, rows):
    config = EncoderConfig.load(folder)
    found = open_checkpoint(folder).names
    model = Pretrainer(config, next_sentence="cls/seq_relationship/output_bias" in found)
    assign_weights(folder, model.variables, (heads.POOLER, *heads.others(("cls/.*",))), config.model_type)
    places = np.broadcast_to(np.arange(rows["input_ids"].shape[1], dtype=np.int32), rows["input_ids"].shape)
    outputs = model(rows | {"masked_lm_positions": places})
    return {name: outputs[name][:, 0] if name == "nsp_logits" else outputs[name] for name in outputs}


def _answered(folder, rows):
    config = EncoderConfig.load(folder)
    model = QuestionAnsweringTask(config).build_model()
    report = assign_weights(folder, model.variables, [heads.POOLER], config.model_type)
    assert set(report.allowed_missing) <= {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    return {name.removesuffix("_logits"): tf.sigmoid(value) for name, value in model(rows).items()}


def _segmented(folder, rows):
    """Two of the linear heads that LTP has on its encoder: where words begin, and their parts of speech."""
    bert, file = bert_tf.load(folder), TorchBin(folder / "pytorch_model.bin")
    assert bert.head is None
    outputs = {"sequence_output": bert.encoder(rows)["sequence_output"]}
    for name in ("cws", "pos"):
        weights = [file.read(f"task_heads.{name}.classifier.0.{part}") for part in ("weight", "bias")]
        head = ClassificationHead(len(weights[1]))
        head.build(outputs["sequence_output"].shape)
        head.set_weights(weights)
        outputs[f"{name}_logits"] = head(outputs["sequence_output"])
    return outputs


@dataclasses.dataclass(frozen=True)
class Real:
    """One model.

    Attributes:
        texts: a key of real_texts.json, or a function that makes them.
        ours: directory, rows -> name -> outputs.
        job: what real_outputs.py is told; paths are within the package.
        inputs: its inputs' names, theirs -> ours.
        prepare: package, folder -> None; None: the package is loaded as it is.
        package: its name, None: that of the row.
        masked: whether some of the pieces become [MASK].
        tolerance: None: the outputs are not compared, the runtime rounds.
        equal: how many of the top answers, as a share.
    """

    texts: str | Callable[[], list]
    ours: Callable
    job: Mapping[str, Any]
    inputs: Mapping[str, str]
    prepare: Callable | None = None
    package: str | None = None
    masked: bool = False
    tolerance: float | None = TOLERANCE
    equal: float = 1.0


_WITHOUT_SEGMENTS = {"input_ids": "input_ids", "attention_mask": "input_mask"}
_BERT = {**_WITHOUT_SEGMENTS, "token_type_ids": "segment_ids"}
_PADDLE = {"input_ids": "input_ids", "att_mask": "input_mask", "token_type_ids": "segment_ids",
           "pos_ids": "position_ids"}  # fmt: skip
REAL = {
    "minilm": Real(
        "english",
        _encoded,
        {"class": "BertModel", "tokenizer": "tokenizer.json"}
        | {"outputs": {"last_hidden_state": "sequence_output", "pooler_output": "pooled_output"}},
        _BERT,
    ),
    "antiberty": Real(
        real_models.antibodies,
        _filled,
        {"class": "BertForMaskedLM", "outputs": {"logits": "mlm_logits"}}
        | {"tokenizer": "vocab.txt", "settings": {"do_lower_case": False}},
        _BERT,
        real_models.antiberty,
        masked=True,
    ),
    "albert-kor": Real(
        "korean",
        _filled,
        {"class": "AlbertForPreTraining", "outputs": {"prediction_logits": "mlm_logits", "sop_logits": "nsp_logits"}}
        | {"tokenizer": "vocab.txt", "settings": {"do_lower_case": True, "strip_accents": False}},
        _BERT,
        masked=True,
        tolerance=2e-4,  # of values up to 38, of which float32 leaves 5e-5 open: so far is torch from its own float64
    ),
    "bert-tiny-classifier": Real(
        "english",
        _classified,
        {"onnx": "model.onnx", "outputs": {"logits": "logits"}, "tokenizer": "tokenizer.json"},
        _BERT,
        real_models.question_classifier,
    ),
    "distilbert-tagger": Real(
        "learners",
        _tagged,
        {"class": "DistilBertForTokenClassification", "outputs": {"logits": "logits"}, "tokenizer": "tokenizer.json"},
        _WITHOUT_SEGMENTS,
        real_models.tagger,
    ),
    "distilbert-tagger-int8": Real(  # the file as it came, which rounds what flows through it to 8 bits
        "learners",
        _tagged,
        {"onnx": "tagger.onnx", "outputs": {"logits": "logits"}, "tokenizer": "tokenizer.json"},
        _WITHOUT_SEGMENTS,
        real_models.tagger,
        package="distilbert-tagger",
        tolerance=None,
        equal=0.98,
    ),
    "electra-zh": Real(
        "chinese",
        _segmented,
        {"class": "ElectraModel", "part": "backbone.", "outputs": {"last_hidden_state": "sequence_output"}}
        | {"heads": {f"{name}_logits": f"task_heads.{name}.classifier.0" for name in ("cws", "pos")}}
        | {"tokenizer": "tokenizer.json"},
        _BERT,
        real_models.electra,
    ),
    "ernie-nano-zh": Real(
        "questions",
        _answered,
        {"onnx": "model/model.onnx", "outputs": {"sigmoid_1.tmp_0": "start", "sigmoid_2.tmp_0": "end"}}
        | {"tokenizer": "uie_predict.py"},
        _PADDLE,
        real_models.ernie,
    ),
}


def _rows(tokenizer, texts):
    pairs = [[text] if isinstance(text, str) else text for text in texts]
    columns = map(list, zip(*pairs, strict=True))
    return {name: rows.numpy() for name, rows in tokenizer(*columns, max_seq_length=WIDTH).items()}


def _trimmed(rows):
    return {name: row[:, : rows["input_mask"].sum(-1).max()] for name, row in rows.items()}


def _with_masks(rows, mask_id):
    """Replaces some of the pieces that are neither the first nor a separator."""
    ids, special = rows["input_ids"].copy(), rows["input_ids"][rows["input_mask"] > 0].reshape(-1)
    assert mask_id not in special
    last = ids[np.arange(len(ids)), rows["input_mask"].sum(-1) - 1][:, None]
    free = (rows["input_mask"] > 0) & (ids != ids[:, :1]) & (ids != last)
    ids[free & (np.random.default_rng(0).random(ids.shape) < MASKED)] = mask_id
    return rows | {"input_ids": ids}


def _answers(name, values, rows, mask_id):
    """Returns what a user would be told, int64 or bool [answers]."""
    if name in ("start", "end"):
        return np.concatenate([values.argmax(-1), (values > 0.5).reshape(-1)])
    if name == "mlm_logits":
        return values[rows["input_ids"] == mask_id].argmax(-1)
    if name == "sequence_output":  # the text that is most like each
        mask = rows["input_mask"][..., None]
        means = (values * mask).sum(1) / mask.sum(1)
        means /= np.linalg.norm(means, axis=-1, keepdims=True)
        return (means @ means.T - 2 * np.eye(len(means))).argmax(-1)
    return (values[rows["input_mask"] > 0] if values.ndim > 2 else values).argmax(-1)


def _original(model, package, folder, rows, texts, tmp_path):
    job = dict(model.job) | {"inputs": model.inputs, "texts": texts, "folder": str(folder)}
    job |= {key: str(package / job[key]) for key in ("onnx", "tokenizer") if key in job}
    real_models.write(tmp_path, "job.json", job)
    np.savez(tmp_path / "inputs.npz", **rows)
    files = [tmp_path / name for name in ("job.json", "inputs.npz", "out.npz")]
    real_models.run(real_models.GOLDENS / "real_outputs.py", *files)
    return dict(np.load(files[-1]))


def _needed(name, model):
    package = real_models.DATA / (model.package or name)
    if not package.is_dir():
        pytest.skip(f"needs the weights in {package}: shared/tools/fetch_data.py fetches them")
    if model.prepare in (real_models.question_classifier, real_models.tagger) and not real_models.ONNX_TO_HF.exists():
        pytest.skip(f"needs {real_models.ONNX_TO_HF}, which takes weights out of ONNX files")
    python = other_envs.torch_python()
    if "onnx" in model.job and subprocess.run([python, "-c", "import onnx, onnxruntime"], check=False).returncode:
        pytest.skip(f"needs onnx and onnxruntime in {python}, which BERT_TF_TORCH_PYTHON names")
    return package


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_outputs_and_top_answers(name, tmp_path):
    model = REAL[name]
    package = _needed(name, model)
    folder = package
    if model.prepare:
        folder = tmp_path / "model"
        folder.mkdir()
        model.prepare(package, folder)
    tokenizer = bert_tf.load(folder).tokenizer
    texts = model.texts() if callable(model.texts) else real_models.texts(model.texts)
    rows = _trimmed(_rows(tokenizer, texts))
    ids = rows["input_ids"][rows["input_mask"] > 0]
    if model.masked:
        rows = _with_masks(rows, tokenizer.mask_id)
    true = _original(model, package, folder, rows, texts, tmp_path)
    np.testing.assert_array_equal(true.pop("ids"), ids)
    np.testing.assert_array_equal(true.pop("lengths"), rows["input_mask"].sum(-1))
    ours = {key: np.array(value) for key, value in model.ours(folder, rows).items()}
    assert ours.keys() == true.keys()
    for key in true:
        _compare(f"{name} {key}", model, *(_placed(outputs[key], rows) for outputs in (ours, true)))
        told = [_answers(key, outputs[key], rows, tokenizer.mask_id) for outputs in (ours, true)]
        assert len(told[0]) >= 20 and len(np.unique(told[1])) > 1
        assert np.mean(told[0] == told[1]) >= model.equal, f"{name} {key}"


def _placed(values, rows):
    """Returns the values that mean something: a place of padding does not."""
    whole = values.shape[:2] == rows["input_mask"].shape
    return values[rows["input_mask"] > 0] if whole else values


def _compare(what, model, ours, true):
    difference, largest = np.abs(ours - true).max(), np.abs(true).max()
    print(f"{what}: {len(true)} rows, largest difference {difference:.1e}, largest value {largest:.3g}")
    assert model.tolerance is None or difference <= model.tolerance, what
