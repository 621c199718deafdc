"""The question-answering task: torch's losses and gradients, the best spans, answers in the text's own words."""

import functools
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.names import family_mappings
from bert_tf.data.dataset import EncodedDataset
from bert_tf.models.config import EncoderConfig
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.training.batching import BatchSettings
from bert_tf.training.run_config import RunConfig
from bert_tf.training.trainer import Trainer
from tests import tiny

GOLDEN = pathlib.Path(__file__).parents[2] / "goldens" / "question_answering"
BATCH = ("input_ids", "input_mask", "segment_ids", "start_positions", "end_positions")
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def golden():
    """Returns (task, model with torch's weights, batch, what torch gave)."""
    task = QuestionAnsweringTask(EncoderConfig.load(GOLDEN))
    model = task.build_model()
    report = assign_weights(GOLDEN, model.variables, allow_unmatched=heads.unused(task))
    assert sorted(report.allowed_missing) == ["bert/pooler/dense/bias", "bert/pooler/dense/kernel"]
    assert len(report.loaded) == len(model.trainable_variables) == 5 + 16 * 2 + 2
    expected = load_file(GOLDEN / "expected.safetensors")
    batch = {name: expected[name] for name in BATCH} | {"is_real_example": np.ones(4, np.float32)}
    return task, model, batch, expected


def test_a_checkpoint_without_pooler_is_a_trained_model(golden, tmp_path):
    task, _, batch, expected = golden
    job = Trainer(task, RunConfig(str(tmp_path / "out"), 4, 0, init_checkpoint=str(GOLDEN)))
    job.restore()
    logits = job.model({name: batch[name] for name in task.features})["start_logits"].numpy()
    mask = batch["input_mask"] == 1
    np.testing.assert_allclose(logits[mask], expected["start_logits"][mask], rtol=TOLERANCE, atol=TOLERANCE)


def test_scores_and_losses_are_torch_s(golden):
    task, model, batch, expected = golden
    outputs = model({name: batch[name] for name in task.features})
    mask = batch["input_mask"] == 1
    for name in ("start_logits", "end_logits"):
        assert outputs[name].dtype == tf.float32
        np.testing.assert_allclose(outputs[name].numpy()[mask], expected[name][mask], rtol=TOLERANCE, atol=TOLERANCE)
        assert (tf.nn.softmax(outputs[name]).numpy()[~mask] == 0).all()
    losses, weights = task.example_losses(outputs, batch)
    np.testing.assert_allclose(losses, expected["losses"], rtol=TOLERANCE, atol=1e-6)
    assert weights.numpy().tolist() == [1] * 4


def test_gradients_are_torch_s(golden):
    task, model, batch, expected = golden
    with tf.GradientTape() as tape:
        outputs = model({name: batch[name] for name in task.features}, training=True)
        loss = task.loss(outputs, batch, task.loss_normalizers(batch))
    found = tape.gradient(loss, [v.value for v in model.trainable_variables])
    largest = max(np.abs(value).max() for name, value in expected.items() if name.startswith("gradient/"))
    for variable, gradient in zip(model.trainable_variables, found, strict=True):
        true = expected[f"gradient/{family_mappings.hugging_face().from_ours(variable.path)}"]
        true = true.T if family_mappings.hugging_face().transposed(variable.path) else true
        gradient = tf.convert_to_tensor(gradient).numpy()
        np.testing.assert_allclose(gradient, true, rtol=1e-3, atol=1e-6 * largest, err_msg=variable.path)


def test_rows_that_fill_up_a_batch_do_not_count(golden):
    task, model, batch, expected = golden
    batch = batch | {"is_real_example": np.array([1, 0, 0, 1], np.float32)}
    outputs = model({name: batch[name] for name in task.features})
    loss = float(task.loss(outputs, batch, task.loss_normalizers(batch)))
    assert loss == pytest.approx((expected["losses"][0] + expected["losses"][3]) / 2, rel=TOLERANCE)


def test_variables_bear_google_s_names():
    model = QuestionAnsweringTask(tiny.config()).build_model()
    heads = {v.path: tuple(v.shape) for v in model.variables if not v.path.startswith("bert/")}
    assert heads == {"cls/squad/output_weights": (2, 32), "cls/squad/output_bias": (2,)}


def _rows(n, seed=0):
    """Returns n rows [CLS] question [SEP] context [SEP]; the answer is the context's one good word and the next."""
    rng = np.random.default_rng(seed)
    good, fill = ([tiny.VOCAB.index(w) for w in words] for words in (tiny.GOOD, tiny.FILL))
    rows, starts = [], []
    for _ in range(n):
        question, context = rng.choice(fill, rng.integers(1, 4)), rng.choice(fill, rng.integers(3, 9))
        place = rng.integers(0, len(context) - 1)
        context[place] = rng.choice(good)
        rows.append(([2, *question, 3, *context, 3], len(question) + 2))
        starts.append(len(question) + 2 + place)
    lengths = [len(row) for row, _ in rows]
    segments = [np.arange(len(row)) >= first for row, first in rows]
    pieces = {
        "input_ids": np.concatenate([row for row, _ in rows]).astype(np.int32),
        "segment_ids": np.concatenate(segments).astype(np.int32),
        "context_mask": np.concatenate([[*segment[:-1], False] for segment in segments]).astype(np.int32),
    }
    starts = np.array(starts, np.int32)
    return EncodedDataset(pieces, np.cumsum([0, *lengths]), {"start_positions": starts, "end_positions": starts + 1})


@pytest.mark.slow  # run_squad_test trains one too
def test_a_tiny_model_learns_and_what_is_kept_does_not_depend_on_the_batches(tmp_path):
    examples = _rows(64)
    task = QuestionAnsweringTask(tiny.config(), n_best_size=3, max_answer_length=5)
    job, batching = Trainer(task, RunConfig(str(tmp_path), 16, 120, 6, 3e-3)), BatchSettings(16)
    job.fit(batching.training(examples, job.run))
    scores = job.scores(batching.scoring(examples, 16))
    assert set(scores) == {"accuracy", "loss"} and scores["accuracy"] > 0.9 and scores["loss"] < 0.5
    kept, others = (job.outputs(batching.scoring(examples, size)) for size in (16, 5))
    assert {name: (v.shape, v.dtype.name) for name, v in kept.items()} == {
        **{name: ((64, 3), "float32") for name in ("score", "start_logit", "end_logit")},
        **{name: ((64, 3), "int32") for name in ("start", "end")},
        **{name: ((64,), "float32") for name in ("null_start_logit", "null_end_logit")},
    }
    for name, values in kept.items():
        np.testing.assert_allclose(others[name], values, atol=1e-4)
    assert (kept["start"][:, 0] == examples.targets["start_positions"]).mean() > 0.9
    there = np.isfinite(kept["score"])
    sums = kept["start_logit"] + kept["end_logit"]
    np.testing.assert_allclose(kept["score"][there], sums[there], atol=1e-5)
    segments = np.split(examples.features["segment_ids"], examples.splits[1:-1])
    first = np.array([segment.argmax() for segment in segments])
    assert (kept["start"] >= first[:, None])[there].all()  # neither the question
    assert (kept["end"] < examples.lengths[:, None] - 1)[there].all()  # nor the last [SEP]


TEXTS = {
    "plain": ("who is it", "The film is a story of people and music. It is good."),
    "long": ("who", "the film is good, " * 40 + "people and music"),
    "emoji": ("who", "😀 good 👩‍👩‍👧 film 🎬 people music the 😀"),
    "combining": ("who", "the fi\u0301lm is go\u0308od\u0301 mu\u0323\u0301sic"),
    "CJK": ("谁", "我good喜欢这部film电影。the people"),
    "empty question": ("", "good film"),
    "blank": ("who is it", " \n "),
    "empty": ("who is it", ""),
    "a very long question": ("people and music " * 30, "the film is a good story of people and music"),
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Returns answer(questions, contexts, **options) of one random model, in the graph, as dicts of Python values."""
    folder = tmp_path_factory.mktemp("vocabulary")
    WordPieceTokenizer(tiny.VOCAB).save(folder)
    tokenizer = WordPieceTokenizer.from_directory(folder)
    model = QuestionAnsweringTask(tiny.config()).build_model()
    for variable in model.trainable_variables[-2:]:
        variable.assign(np.random.default_rng(1).normal(size=variable.shape))

    @functools.cache
    def graph(**options):
        task = QuestionAnsweringTask(tiny.config(), **options)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2, autograph=False)
        def ask(question, context):
            features, origin = task.preprocess(tokenizer, [question, context], 16)
            return task.postprocess(model(features), origin)

        return ask

    def answer(questions, contexts, **options):
        ask = graph(**{"max_query_length": 5, "doc_stride": 4, "max_answer_length": 6, **options})
        answers = {name: value.numpy() for name, value in ask(questions, contexts).items()}
        return [dict(zip(answers, row, strict=True)) for row in zip(*answers.values(), strict=True)]

    return answer


def test_answers_are_cut_from_the_context_as_it_came(asked):
    questions, contexts = zip(*TEXTS.values(), strict=True)
    for name, context, answer in zip(TEXTS, contexts, asked(list(questions), list(contexts)), strict=True):
        text = answer["answer"].decode()
        assert context[answer["start"] : answer["end"]] == text
        assert bool(text) == bool(context.strip()), name
        assert text or (answer["score"] == 0 and answer["start"] == answer["end"] == 0)
        assert np.isfinite([answer["score"], answer["null_score"]]).all()


def test_a_question_alone_is_answered_as_among_others(asked):
    questions, contexts = map(list, zip(*TEXTS.values(), strict=True))
    together = asked(questions, contexts)
    for question, context, answer in zip(questions, contexts, together, strict=True):
        (alone,) = asked([question], [context])
        assert alone["answer"] == answer["answer"] and alone["start"] == answer["start"]
        assert alone["score"] == pytest.approx(answer["score"], abs=1e-4)
        assert alone["null_score"] == pytest.approx(answer["null_score"], abs=1e-4)
    assert asked(tf.constant([], tf.string), tf.constant([], tf.string)) == []


def test_bytes_that_are_no_utf_8_do_not_count(asked):
    context = "good 😀 film".encode()
    broken = b"\xff\xfe" + context[:5] + b"\xed\xa0\x80" + context[5:] + b"\xf0\x9f"
    clean, dropped = asked(["who", "who"], [context, broken])
    assert clean["answer"] == dropped["answer"] and clean["start"] == dropped["start"]
    assert context.decode()[dropped["start"] : dropped["end"]].encode() == dropped["answer"]


@pytest.mark.slow
def test_no_answer_by_the_threshold(asked):
    question, context = ["who"], [TEXTS["long"][1]]
    (answer,) = asked(question, context)
    odds = answer["null_score"] - answer["score"]
    (never,) = asked(question, context, null_score_diff_threshold=float(odds) + 0.1)
    (none,) = asked(question, context, null_score_diff_threshold=float(odds) - 0.1)
    assert never == answer and answer["answer"]
    assert (none["answer"], none["start"], none["end"]) == (b"", 0, 0) and none["score"] == answer["score"]


def test_no_room_for_the_context_is_refused(asked):
    with pytest.raises(
        ValueError, match=r"`max_seq_length` must be greater than `max_query_length` \+ 3, .* 16 and 13"
    ):
        asked(["who"], ["good"], max_query_length=13)
    with pytest.raises(ValueError, match=r"`doc_stride` must be from 1 to .*= 8.* got 9; with a larger"):
        asked(["who"], ["good"], doc_stride=9)
