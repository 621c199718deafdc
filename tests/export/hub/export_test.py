"""TF Hub's pair: what the API promises, and that it is the same model."""

import os

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.export.hub.encoder import HubEncoder
from bert_tf.export.hub.preprocessor import INPUTS
from tests import run_cases, tiny

TEXTS = ["The film is göod.", "", "people see the music, a bad story of people " * 3]


@pytest.fixture(scope="module")
def preprocessor(hub_pair):
    return tf.saved_model.load(hub_pair[0])


@pytest.fixture(scope="module")
def encoder(hub_pair):
    return tf.saved_model.load(hub_pair[1])


@pytest.fixture(scope="module")
def tokenizer():
    return bert_tf.WordPieceTokenizer(tiny.VOCAB)


def _rows(tensors):
    """Returns int32 tensors as lists, by TF Hub's names."""
    assert {value.dtype for value in tensors.values()} == {tf.int32}
    return {INPUTS.get(name, name): value.numpy().tolist() for name, value in tensors.items()}


@pytest.mark.slow
def test_texts_become_rows_of_the_default_length(preprocessor, tokenizer):
    assert _rows(preprocessor(tf.constant(TEXTS))) == _rows(tokenizer(TEXTS, max_seq_length=16))


@pytest.mark.slow
def test_words_and_their_pieces(preprocessor, tokenizer):
    ids = preprocessor.tokenize(tf.constant(TEXTS))
    assert ids.dtype == tf.int32 and ids.shape.rank == 3
    good, point = tiny.VOCAB.index("good"), tiny.VOCAB.index(".")
    assert ids[0].to_list()[-2:] == [[good], [point]] and ids[1].to_list() == []
    assert ids.merge_dims(1, 2).to_list() == tokenizer.tokenize(TEXTS).to_list()


@pytest.mark.slow
def test_offsets_are_in_bytes(preprocessor):
    texts = ["The film is göod.", b"\xff a \xe4\xb8\xad film", ""]
    ids, starts, limits = preprocessor.tokenize_with_offsets(tf.constant(texts))
    assert ids.to_list() == preprocessor.tokenize(tf.constant(texts)).to_list()
    assert starts.dtype == limits.dtype == tf.int64
    pieces = [text.encode() if isinstance(text, str) else text for text in texts]
    cut = [
        [text[a:b] for a, b in zip(begin.flat_values.numpy(), end.flat_values.numpy(), strict=True)]
        for text, begin, end in zip(pieces, starts, limits, strict=True)
    ]
    assert cut[0] == [b"The", b"film", b"is", "göod".encode(), b"."]
    assert cut[1:] == [[b"a", "中".encode(), b"film"], []]


@pytest.mark.slow
def test_special_tokens_are_known(preprocessor):
    expected = {"vocab_size": 28, "padding_id": 0, "start_of_sequence_id": 2, "end_of_segment_id": 3, "mask_id": 4}
    for part in (preprocessor.tokenize, preprocessor.tokenize_with_offsets):
        assert {name: int(value) for name, value in part.get_special_tokens_dict().items()} == expected


@pytest.mark.slow
@pytest.mark.parametrize("seq_length", [3, 4, 7, 16, 40])
def test_packing_is_round_robin(preprocessor, tokenizer, seq_length):
    ids = preprocessor.tokenize(tf.constant(TEXTS))
    flat, turned = ids.merge_dims(1, 2), tokenizer.tokenize(TEXTS[::-1])
    for pair in ([ids, turned], [flat, turned]):
        packed = preprocessor.bert_pack_inputs(pair, seq_length=tf.constant(seq_length))
        assert _rows(packed) == _rows(tokenizer(TEXTS, TEXTS[::-1], seq_length))
        for row, a, b in zip(packed["input_word_ids"].numpy(), flat.to_list(), turned.to_list(), strict=True):
            np.testing.assert_array_equal(row, _round_robin(a, b, seq_length))
    packed = preprocessor.bert_pack_inputs([flat], seq_length=seq_length)
    assert _rows(packed) == _rows(tokenizer(TEXTS, None, seq_length))


def _round_robin(a, b, seq_length):
    """The rule as tensorflow-text's RoundRobinTrimmer words it: a piece from each in turn while there is room."""
    room, kept = seq_length - 3, ([], [])
    for n in range(max(len(a), len(b))):
        for text, some in zip((a, b), kept, strict=True):
            if n < len(text) and len(kept[0]) + len(kept[1]) < room:
                some.append(text[n])
    row = [2, *kept[0], 3, *kept[1], 3]
    return row + [0] * (seq_length - len(row))


@pytest.mark.slow
def test_packing_has_a_default_and_a_lower_bound(preprocessor):
    ids = preprocessor.tokenize(tf.constant(TEXTS))
    assert preprocessor.bert_pack_inputs([ids])["input_mask"].shape == (3, 16)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"to fit the special tokens \[CLS\] \[SEP\] \[SEP\]"):
        preprocessor.bert_pack_inputs([ids, ids], seq_length=2)


@pytest.mark.slow
def test_what_is_loaded_and_saved_again_still_works(preprocessor, tmp_path):
    class Wrapper(tf.Module):
        def __init__(self):
            super().__init__()
            self.inner = preprocessor

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, texts):
            return self.inner(texts)

    tf.saved_model.save(Wrapper(), str(tmp_path))
    again = tf.saved_model.load(str(tmp_path))
    np.testing.assert_array_equal(*(m(tf.constant(TEXTS))["input_word_ids"] for m in (again, preprocessor)))
    with open(again.inner.vocab_file.asset_path.numpy(), encoding="utf-8") as file:
        assert file.read().split() == list(tiny.VOCAB)


@pytest.mark.slow
def test_the_encoder_is_ours(encoder, pretrained, preprocessor):
    inputs = preprocessor(tf.constant(TEXTS))
    bert = bert_tf.load(pretrained)
    ours = bert.encoder({name: inputs[theirs] for name, theirs in INPUTS.items()})
    outputs = encoder(inputs)
    assert outputs.keys() == {"pooled_output", "default", "sequence_output", "encoder_outputs"}
    for name in ("pooled_output", "sequence_output"):
        np.testing.assert_allclose(outputs[name], ours[name], atol=1e-5)
    np.testing.assert_array_equal(outputs["default"], outputs["pooled_output"])
    np.testing.assert_allclose(outputs["encoder_outputs"][-1], outputs["sequence_output"], atol=0)
    np.testing.assert_array_equal(encoder(inputs, training=False)["default"], outputs["default"])


@pytest.mark.slow
def test_sequences_longer_than_the_model_s_are_refused_without_a_table_of_positions(tokenizer):
    own = bert_tf.Encoder(tiny.config(**tiny.MODERNBERT))
    own.build()
    encoder, row = HubEncoder(own, tokenizer), tf.ones([1, 33], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"at most max_position_embeddings = 32 tokens\. .*33"):
        encoder(dict.fromkeys(INPUTS.values(), row))


@pytest.mark.slow
def test_dropout_draws_again_in_training_alone(tokenizer, preprocessor):
    own = bert_tf.Encoder(tiny.config(dropout=0.5))
    own.build()
    encoder, inputs = HubEncoder(own, tokenizer), preprocessor(tf.constant(TEXTS))
    drawn = [encoder(inputs, training=training)["default"].numpy() for training in (True, True, False, False)]
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-3
    np.testing.assert_array_equal(drawn[2], drawn[3])


def test_attributes_are_those_of_the_api(encoder):
    assert len(encoder.variables) == len(encoder.trainable_variables) == 23
    assert encoder.variables[0].name == "bert/embeddings/word_embeddings:0"
    assert list(encoder.regularization_losses) == []
    assert encoder.do_lower_case.numpy() and not encoder.do_lower_case.trainable
    assert os.path.basename(encoder.vocab_file.asset_path.numpy()) == b"vocab.txt"
    assert len(encoder.mlm.trainable_variables) == 28


@pytest.mark.slow
def test_the_mlm_head_gives_the_logits_of_masked_positions(encoder, pretrained, preprocessor):
    inputs = preprocessor(tf.constant(TEXTS))
    positions = tf.constant([[1, 3], [0, 0], [5, 0]])
    outputs = encoder.mlm({**inputs, "masked_lm_positions": positions})
    assert outputs.keys() == {"pooled_output", "sequence_output", "encoder_outputs", "mlm_logits"}
    bert = bert_tf.load(pretrained)
    x = tf.gather(outputs["sequence_output"], positions, batch_dims=1)
    w = {name.removeprefix("cls/predictions/"): value for name, value in bert.others.items()}
    x = tf.nn.gelu(x @ w["transform/dense/kernel"] + w["transform/dense/bias"], approximate=True)
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    x = (x - mean) / tf.sqrt(variance + 1e-12)
    x = x * w["transform/LayerNorm/gamma"] + w["transform/LayerNorm/beta"]
    table = bert.encoder.embeddings.word_embeddings.numpy()
    np.testing.assert_allclose(outputs["mlm_logits"], x @ table.T + w["output_bias"], atol=1e-4)


def steps(call, variables, batches, labels, weights):
    """Returns the losses of steps down the gradient of the pooled output, with a head of these weights."""
    weights = tf.Variable(weights)
    variables = [*variables, weights]

    @tf.function
    def step(inputs, label):
        with tf.GradientTape() as tape:
            logits = tf.matmul(call(inputs), weights)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits))
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.05 * tf.convert_to_tensor(gradient))
        return loss

    return np.array([step(*each) for each in zip(batches, labels, strict=True)])


def examples(preprocessor, count=20, size=8):
    """Returns batches of rows, and their labels."""
    rows = [tiny.texts(size, seed=n) for n in range(count)]
    batches = [preprocessor(tf.constant([text for text, _ in row])) for row in rows]
    return batches, [tf.constant([int(label) for _, label in row]) for row in rows]


@pytest.mark.slow
def test_twenty_steps_of_fine_tuning_are_those_of_our_own_encoder(preprocessor, hub_pair, pretrained):
    loaded, own = tf.saved_model.load(hub_pair[1]), bert_tf.load(pretrained).encoder
    batches, labels = examples(preprocessor)
    head = np.random.default_rng(0).normal(0, 0.2, [32, 2]).astype(np.float32)
    ours = steps(
        lambda x: own({name: x[theirs] for name, theirs in INPUTS.items()}, training=True)["pooled_output"],
        [variable.value for variable in own.variables], batches, labels, head,
    )  # fmt: skip
    theirs = steps(
        lambda x: loaded(x, training=True)["pooled_output"], loaded.trainable_variables, batches, labels, head
    )
    np.testing.assert_allclose(theirs, ours, atol=1e-4)
    assert np.ptp(ours) > 0.05  # it moved


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hub", "--default_seq_length=33"], "--default_seq_length must be from 3 (the special tokens of a pair) to"),
        (["--hub", "--export_dir=USED"], "--export_dir must not exist yet"),
        (["--default_seq_length=8"], "--default_seq_length requires --hub"),
    ],
)
def test_the_program_refuses_what_it_cannot_do(pretrained, tmp_path, words, message):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    words = [word.replace("USED", str(tmp_path / "used")) for word in words]
    ended = run_cases.run_here("export", [f"--model={pretrained}", f"--export_dir={tmp_path}/no", *words])
    assert ended["status"] == 1 and message in ended["log"]
    assert os.listdir(tmp_path) == ["used"]
