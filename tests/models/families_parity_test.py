"""BERT's children against torch Transformers: committed goldens of seeded random models, read by name."""

import dataclasses
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.joined_weights import JoinedWeights
from bert_tf.checkpoints.names import family_mappings
from bert_tf.export.cpu.encoder import FastEncoder
from bert_tf.export.cpu.products import Floats
from bert_tf.models import config_files
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.models.pretraining_heads import ReplacedTokenHead
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tasks.tagging.task import TaggingTask
from tests import other_envs, parity
from tests.harness import relative_error

pytestmark = pytest.mark.usefixtures("unfused")
GOLDENS = parity.GOLDENS
CASES = sorted(path.name for path in (GOLDENS / "families").iterdir())
TOLERANCE = 1e-5  # of the largest value, float32
SLOW = pytest.mark.slow
# Cases whose parts are in others, too.
REPEATED = ("-questions", "-tokens", "-untied", "-pooler", "-square", "-not-legacy", "-without-tasks", "-id-3",
            "-biased", "-unbiased", "-mean", "-parts", "-half-classifier", "-convolution-classifier",
            "prelayernorm-classifier")  # fmt: skip
FAST = ("bert-tokens", "deberta-questions", "roberta-untied", "modernbert-biased")


def _kind(case):
    (name,) = config_files.read_config_file(str(GOLDENS / "families" / case / "config.json"))["architectures"]
    return name


def _of(*endings):
    return [case for case in CASES if _kind(case).endswith(endings)]


def _marked(cases):
    return [pytest.param(case, marks=SLOW) if case.endswith(REPEATED) and case not in FAST else case for case in cases]


# Those without a head of ours, and some of which the encoder alone is read, too.
_ALONE_SLOW = ("electra-discriminator", "albert-groups", "deberta-convolution", "modernbert-classifier", *_of("Model"))
ALONE = ("bert-classifier", *(pytest.param(case, marks=SLOW) for case in _ALONE_SLOW))


def _encoder_in(model):
    return next(layer for layer in model.layers if isinstance(layer, Encoder))


def _golden(case):
    """Returns (folder, config, inputs, what torch gave)."""
    folder = GOLDENS / "families" / case
    expected = load_file(folder / "expected.safetensors")
    names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
    inputs = {ours: expected.pop(theirs) for theirs, ours in names.items()}
    return folder, EncoderConfig.load(folder), inputs, expected


def _assert_equal(ours, true, mask=None):
    ours = np.array(ours)
    if mask is not None:  # a position of padding means nothing
        ours, true = ours[mask > 0], true[mask > 0]
    assert relative_error(ours, true) < TOLERANCE


def _assert_encoder(encoder, case, inputs, expected):
    """Checks what the encoder alone gives, and the one that exports run on CPUs."""
    all_outputs = [encoder(inputs)]
    if case not in _of("ForTokenClassification", "ForQuestionAnswering"):  # which differ from others in their heads
        all_outputs.append(FastEncoder(encoder, Floats(), parts=2)(inputs))
    for outputs in all_outputs:
        _assert_equal(outputs["sequence_output"], expected["sequence_output"], inputs["input_mask"])
        assert len(outputs["encoder_outputs"]) == encoder.config.num_hidden_layers
        if "pooled_output" in expected:
            _assert_equal(outputs["pooled_output"], expected["pooled_output"])


def _assert_only_pooler_missing(report, expected):
    missing = {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    assert set(report.allowed_missing) <= (set() if "pooled_output" in expected else missing)


@pytest.mark.parametrize("case", ALONE)
def test_the_encoder(case):
    folder, config, inputs, expected = _golden(case)
    if "pooled_output" in expected:  # some families have one in some files: `bert_tf.load` looks
        config = dataclasses.replace(config, has_pooler=True)
    encoder = Encoder(config)
    encoder.build()
    report = assign_weights(folder, encoder.variables, (*heads.others(()), heads.POOLER), config.model_type)
    _assert_only_pooler_missing(report, expected)
    _assert_encoder(encoder, case, inputs, expected)


_WITH_THREE = ("Wqkv.weight", "Wqkv.bias", "qkv_proj.weight", "qkv_proj.bias")


def _gradients(expected, weight_mapping):
    """Returns the gradients under the names of weights, the parts of one weight of ours joined."""
    found = {name.removeprefix("gradient/"): array for name, array in expected.items() if name.startswith("gradient/")}
    shapes = {name: array.shape for name, array in found.items()}
    return JoinedWeights(types.SimpleNamespace(shapes=shapes, read=found.get), weight_mapping.joined)


@pytest.mark.slow
@pytest.mark.parametrize("case, count", [pytest.param("prelayernorm", 5 + 16 * 2 + 2 + 5, marks=SLOW),
                                         pytest.param("modernbert", 2 + 8 * 5 - 1 + 1 + 3, marks=SLOW),
                                         ("modernbert-biased", 3 + 16 * 3 - 2 + 2 + 5),
                                         ("deberta", 3 + 3 + 16 * 3 + 5),
                                         pytest.param("deberta-half", 5 + 3 + 16 * 3 + 5, marks=SLOW),
                                         ("deberta-convolution", 3 + 3 + 16 * 3 + 4 + 5),
                                         ("mpnet", 2 + 2 + 1 + 16 * 3 + 5),
                                         ("nomic", 4 + 10 * 2 + 3),
                                         ("gte", 3 + 15 * 2 + 5),
                                         pytest.param("nomic-biased", 4 + 10 * 3 + 5, marks=SLOW),
                                         pytest.param("gte-parts", 4 + 15 * 3 + 5, marks=SLOW),
                                         pytest.param("mpnet-classifier", 2 + 2 + 1 + 16 * 1 + 4, marks=SLOW),
                                         pytest.param("modernbert-mean", 3 + 16 * 3 - 2 + 2 + 6, marks=SLOW),
                                         pytest.param("deberta-classifier", 3 + 3 + 16 * 3 + 4, marks=SLOW),
                                         ])  # fmt: skip
def test_all_layers_and_gradients(case, count):
    folder, config, inputs, expected = _golden(case)
    config = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    of_text = _kind(case).endswith("ForSequenceClassification")
    model = ClassificationTask(config, 3).build_model() if of_text else Pretrainer(config, next_sentence=False)
    encoder = _encoder_in(model)
    assign_weights(folder, model.variables, [] if of_text else [heads.POOLER], config.model_type)
    outputs, mask = encoder(inputs), inputs["input_mask"]
    states = expected["hidden_states"]  # of the last block before the final norm, which ours has behind it
    for ours, true in zip(outputs["encoder_outputs"][:-1], states[1:-1], strict=True):
        _assert_equal(ours, true, mask)
    _assert_equal(outputs["embedding_output"], states[0], mask)
    _assert_equal(outputs["encoder_outputs"][-1], expected["sequence_output"], mask)
    with tf.GradientTape() as tape:
        if of_text:
            logits, labels, weights = model(inputs, training=True), np.arange(len(mask)) % 3, 1.0
        else:
            positions = np.tile(np.arange(3, dtype=np.int32), (len(mask), 1))
            logits = model(inputs | {"masked_lm_positions": positions}, training=True)["mlm_logits"]
            labels, weights = inputs["input_ids"][:, 1:4], tf.cast(mask[:, :3], tf.float32)
        loss = tf.reduce_sum(weights * tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    assert float(loss) == pytest.approx(float(expected["loss"]), rel=TOLERANCE)
    weight_mapping, checked = family_mappings.hugging_face(config.model_type, classes=[_kind(case)]), 0
    gradients = _gradients(expected, weight_mapping)
    found_twice = sum(name.endswith(_WITH_THREE) for name in gradients.shapes) * 2
    for variable, found in zip(model.variables, tape.gradient(loss, [v.value for v in model.variables]), strict=True):
        if not weight_mapping.knows(variable.path):
            continue
        name = weight_mapping.from_ours(variable.path)
        if name not in gradients.shapes:
            name = name.replace("bert.", "nomic_bert.")  # as Transformers 5 calls it
        if name not in gradients.shapes:
            continue
        true = weight_mapping.transform(variable.path).to_ours(gradients.read(name))
        # Softmax does not see what all keys have in common, which p2c multiplies by different vectors of positions:
        # gradients that are zero but for rounding.
        common = variable.path.endswith(("key/bias", "relative_positions/LayerNorm/beta"))
        unseen = common and "p2c" not in config.pos_att_type
        scale = 1.0 if unseen else np.abs(true).max()
        assert np.abs(tf.convert_to_tensor(found).numpy() - true).max() < TOLERANCE * scale, variable.path
        checked += 1
    assert checked == len(gradients.shapes) + found_twice == count


@pytest.mark.parametrize("case", _marked(_of("ForMaskedLM", "ForPreTraining")))
def test_pretraining_s_heads(case):
    folder, config, inputs, expected = _golden(case)
    if _kind(case).startswith("Electra") and _kind(case).endswith("ForPreTraining"):
        pytest.skip("is a discriminator")
    model = Pretrainer(config, next_sentence="sentence_logits" in expected)
    report = assign_weights(folder, model.variables, [heads.POOLER], config.model_type)
    assert not report.allowed_unused
    _assert_only_pooler_missing(report, expected)
    _assert_encoder(model.encoder, case, inputs, expected)
    positions = np.tile(np.arange(expected["logits"].shape[1], dtype=np.int32), (len(inputs["input_ids"]), 1))
    outputs = model(inputs | {"masked_lm_positions": positions})
    _assert_equal(outputs["mlm_logits"], expected["logits"], inputs["input_mask"][:, : positions.shape[1]])
    if "sentence_logits" in expected:
        _assert_equal(outputs["nsp_logits"][:, 0], expected["sentence_logits"])


TASKS = {
    "ForSequenceClassification": lambda config: ClassificationTask(config, 3),
    "ForTokenClassification": lambda config: TaggingTask(config, ["B-A", "I-A", "O"], "iob2"),
    "ForQuestionAnswering": QuestionAnsweringTask,
}


@pytest.mark.parametrize("case", _marked(_of(*TASKS)))
def test_a_task_s_head(case):
    folder, config, inputs, expected = _golden(case)
    kind = next(ending for ending in TASKS if _kind(case).endswith(ending))
    model, of_text = TASKS[kind](config).build_model(), kind == "ForSequenceClassification"
    report = assign_weights(folder, model.variables, [] if of_text else [heads.POOLER], config.model_type)
    _assert_only_pooler_missing(report, expected)
    _assert_encoder(_encoder_in(model), case, inputs, expected)
    outputs = model(inputs)
    for name, logits in (outputs if isinstance(outputs, dict) else {"logits": outputs}).items():
        _assert_equal(logits, expected[name], None if of_text else inputs["input_mask"])


def test_replaced_tokens():
    folder, config, inputs, expected = _golden("electra-discriminator")
    encoder = Encoder(config)
    encoder.build()
    with keras.name_scope("cls"):
        head = ReplacedTokenHead(config.hidden_act)
        head.build((None, None, config.hidden_size))
    assign_weights(folder, [*encoder.variables, *head.variables], family=config.model_type)
    _assert_equal(head(encoder(inputs)["sequence_output"]), expected["logits"], inputs["input_mask"])


def test_an_encoder_that_is_a_part_of_another_model(tmp_path):
    folder, config, _, _ = _golden("electra-generator")
    held = load_file(folder / "model.safetensors").items()
    weights = {name.replace("electra.", "backbone."): held for name, held in held if name.startswith("electra.")}
    beside = {"task_heads.ner.classifier.0.weight": np.ones((3, 12), np.float32)}
    save_file(weights | beside, tmp_path / "model.safetensors")
    whole, part = Encoder(config), Encoder(config)
    for encoder, path in ((whole, folder), (part, tmp_path)):
        encoder.build()
        report = assign_weights(path, encoder.variables, heads.others(()), config.model_type)
    assert report.allowed_unused == list(beside)
    for mine, theirs in zip(part.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_layers_that_share_a_block_do_not_share_its_masks():
    _, config, inputs, _ = _golden("albert")
    config = EncoderConfig(**{**config.__dict__, "hidden_dropout_prob": 0.5, "extra": {}})
    keras.utils.set_random_seed(0)
    encoder = Encoder(config)
    first, second = encoder(inputs, training=True)["encoder_outputs"]
    assert not np.allclose(first, second)


@pytest.mark.slow
def test_torch_makes_the_same_goldens_again(tmp_path):
    parity.run_torch("torch_families.py", tmp_path)
    parity.run_torch("torch_rotary_families.py", tmp_path, python=other_envs.transformers_5_python())
    for case in CASES:
        files = (f"families/{case}/{file}" for file in ("model.safetensors", "expected.safetensors"))
        parity.check_same(tmp_path, files, 1e-5)
