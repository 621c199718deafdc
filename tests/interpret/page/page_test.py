"""What a page holds is what `bert_tf.inspect` gives; what is asked for in vain is refused; nothing becomes markup."""

import base64
import hashlib
import html.parser
import json
import os
import re

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import inspect
from bert_tf.checkpoints.loading import save_description
from bert_tf.checkpoints.tf1 import write_tf1
from bert_tf.cli.visualize import FLAGS
from bert_tf.interpret import integrated_gradients
from bert_tf.interpret.page import array_text, build_html, visualize
from bert_tf.interpret.page.contents import VIEWS, PageOptions, gather
from bert_tf.interpret.page.target_parsing import target_of
from bert_tf.models.heads import ClassificationHead, QuestionAnsweringHead
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.registry import save_task
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import run_cases, tiny
from tests.interpret.models import with_words
from tests.interpret.page.models import PAIR, unpack, weights_of, with_all_heads


@pytest.fixture(scope="module", autouse=True)
def few_steps():
    """Takes 32 steps for every attribution: how near they come is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integrated_gradients, "_MOST", integrated_gradients._FIRST)
        yield


@pytest.fixture(scope="module")
def bert():
    return with_all_heads(num_hidden_layers=2, num_attention_heads=4, pruned_heads={1: (2,)})


@pytest.fixture(scope="module")
def found(bert):
    return gather(bert, PAIR)


def _array(found, name):
    return np.stack(list(unpack(found.arrays[name])))


def test_all_views_hold_what_inspect_gives(bert, found):
    assert found.facts["views"] == [{"name": name, "missing": None} for name in VIEWS]
    [row], [states] = (call(bert, [PAIR], masks=True) for call in (inspect.neurons, inspect.layers))
    assert found.facts["tokens"] == row.tokens and "[MASK]" in row.tokens
    for name in ("weights", "query", "key"):
        expected = getattr(row, name)
        np.testing.assert_allclose(_array(found, name), expected, atol=2e-3 * np.abs(expected).max())
    np.testing.assert_allclose(_array(found, "itself")[0], states.with_itself(), atol=1e-3)
    np.testing.assert_allclose(_array(found, "among")[1], states.among_all(1), atol=1e-3)
    assert found.facts["kept"] == [[True] * 4, [True, True, False, True]]
    assert np.array_equal(_array(found, "thumbnails")[0], _array(found, "weights"))  # as short as that
    [begin] = inspect.inputs(bert, [PAIR], masks=True)
    for name in ("token", "segment", "position", "output"):
        np.testing.assert_allclose(_array(found, f"input_{name}")[0], getattr(begin, name), atol=2e-3)


def test_words_of_the_heads(bert, found):
    [said] = inspect.logit_lens(bert, [PAIR])
    masked = found.facts["masked"]
    tokens = np.array(masked["tokens"])[masked["which"]].reshape(masked["shape"])
    assert np.array_equal(tokens, said.top_tokens) and tokens.shape[2] == 5
    np.testing.assert_allclose(_array(found, "masked")[0], said.probabilities, atol=1e-3)
    [why] = inspect.attributions(bert, [PAIR], masks=True)
    given = found.facts["attribution"]
    assert (given["target"], given["chosen"], given["gap"]) == (why.target, False, why.gap)
    assert given["labels"] == bert.labels and given["word_values"] == why.word_values.tolist()


@pytest.mark.slow
def test_some_layers_views_and_another_target(bert):
    some = gather(bert, ["a film"], PageOptions(["attribution", "heads"], [-1], "good", 2))
    assert some.facts["layers"] == [1] and set(some.arrays) == {"weights"}
    assert [view["name"] for view in some.facts["views"]] == ["heads", "attribution"]
    assert some.facts["attribution"]["target"] == "good" and some.facts["attribution"]["chosen"]
    assert gather(bert, ["a film"], PageOptions(["logit_lens"], top_k=2)).facts["masked"]["shape"][2] == 2


def test_what_python_gives_is_taken_as_a_command_line_is(bert):
    facts = gather(bert, ["a film"], PageOptions("attribution", target=0)).facts
    assert [view["name"] for view in facts["views"]] == ["attribution"] and facts["attribution"]["target"] == "bad"
    assert gather(bert, ["a film"], PageOptions(["heads"], 1)).facts["layers"] == [1]
    with pytest.raises(ValueError, match="`top_k` must be at least 1; got 0; the default is 5"):
        visualize(bert, "a film", top_k=0)
    with pytest.raises(ValueError, match=r"`texts` must be strings; got None\."):
        visualize(bert, None)
    with pytest.raises(ValueError, match=r"`heads` must be a dict from layers to heads; got \[0, 1\]\."):
        inspect.ablate_heads(bert, [0, 1])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A classifier of several labels, trained on single texts of at most eight tokens, with a temperature."""
    folder = tmp_path_factory.mktemp("trained") / "reviews"
    task = ClassificationTask(tiny.config(), 3, "multi_label", ["bad", "good", "long"], temperature=2.0)
    WordPieceTokenizer(tiny.VOCAB).save(folder)
    save_description(folder, task.config, WordPieceTokenizer.from_directory(folder), task.labels)
    save_task(folder, TrainedTask(task, ("text",), 8))
    keras.utils.set_random_seed(1)
    write_tf1(os.path.join(folder, "model.ckpt-7"), task.build_model().variables)
    return folder


@pytest.mark.slow
def test_probabilities_are_those_of_the_task(trained):
    [why] = inspect.attributions(bert_tf.load(trained), ["a film"])
    np.testing.assert_allclose(why.probabilities, 1 / (1 + np.exp(-why.logits / 2)), rtol=1e-6)
    facts = gather(bert_tf.load(trained), ["a film"], PageOptions("attribution")).facts
    assert facts["attribution"]["several"] and facts["attribution"]["probabilities"] == why.probabilities.tolist()
    assert facts["notes"] == []


@pytest.mark.slow
def test_a_page_says_where_the_model_answers_for_other_rows(trained, caplog):
    notes = gather(bert_tf.load(trained), ["the film " * 4, "is good"], PageOptions("heads")).facts["notes"]
    assert "rows of at most 8 tokens" in notes[0] and "it reads all 13 tokens" in notes[0]
    assert notes[1] == "The model was trained on examples of one text (text). For this page, it reads 2 texts."
    assert all(note in caplog.text for note in notes)
    [note] = gather(bert_tf.load(trained), [" "], PageOptions("heads")).facts["notes"]
    assert note.startswith("The text contains no words: ") and note in caplog.text


def test_a_page_does_not_tell_where_the_model_lies(trained):
    facts = gather(bert_tf.load(trained), ["a film"]).facts
    [missing] = [view["missing"] for view in facts["views"] if view["name"] == "logit_lens"]
    assert "reviews does not have one" in missing and str(trained.parent) not in json.dumps(facts)


def test_a_model_without_heads_says_why_views_are_not_there():
    facts = gather(with_words(), ["a film"]).facts
    missing = {view["name"]: view["missing"] for view in facts["views"]}
    assert missing["logit_lens"].startswith("Model must have a masked-LM head")
    assert missing["attribution"].startswith("Attributions require a head for labels")
    assert not any(missing[name] for name in VIEWS if name not in ("logit_lens", "attribution"))


@pytest.mark.slow
def test_thumbnails_keep_the_greatest_weights_of_a_long_text():
    found = gather(with_words(max_position_embeddings=128), ["film " * 98], PageOptions(["model", "heads"]))
    weights, small = _array(found, "weights"), _array(found, "thumbnails")[0]
    assert weights.shape[2:] == (100, 100) and small.shape[2:] == (48, 48)
    np.testing.assert_allclose(small.max((2, 3)), weights.max((2, 3)))


@pytest.mark.parametrize("scale", [0.1, 1.0, 4.0])
def test_many_weights_take_few_bits_and_stay_near(scale, monkeypatch):
    monkeypatch.setattr(array_text, "_MANY", 0)
    scores = scale * np.random.default_rng(0).standard_normal((2, 3, 64, 64))
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    packed = array_text.pack_array(weights.astype(np.float32), array_text.ROOT, 4.0)
    size = sum(map(len, packed.texts))
    assert packed.parts[0]["kind"] == "root" and size < 1.1 * weights.size * 4 / 8 * 4 / 3
    most = weights.max((2, 3), keepdims=True)
    back = np.stack(list(unpack(packed)))
    assert (np.abs(back - weights) / np.sqrt(weights * most)).max() < 0.08
    vectors = array_text.pack_array(scores.astype(np.float32))
    assert vectors.parts[0]["kind"] == "linear"
    np.testing.assert_allclose(np.stack(list(unpack(vectors))), scores, atol=scale * 0.08)


class _Tags(html.parser.HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.tags:
            self.texts.append((self.tags[-1], data))


def test_the_page_allows_its_own_script_alone(found):
    page = build_html(found, "<b>model</b>")
    read = _Tags(page)
    policy = next(each["content"] for tag, each in read.tags if each.get("http-equiv"))
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for tag in ("script", "style"):
        [text] = [text for (name, attributes), text in read.texts if name == tag and not attributes and text.strip()]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "b" not in [tag for tag, _ in read.tags]
    facts = json.loads(next(text for (_, each), text in read.texts if each.get("id") == "facts"))
    assert facts["texts"] == list(PAIR) and facts["model"] == "<b>model</b>"
    assert set(re.findall(r"\w+://[^\s\"']*", page)) == {"http://www.w3.org/2000/svg"}  # a name, and no address
    ids = {each["id"] for tag, each in read.tags if "id" in each}
    assert all(f"{name}-{n}" in ids for name, each in facts["arrays"].items() for n in range(len(each["parts"])))


def test_a_notebook_shows_the_page_in_a_frame(bert):
    seen = visualize(bert, *PAIR, views=["heads"])
    [(tag, attributes)] = _Tags(seen._repr_html_()).tags
    assert tag == "iframe" and attributes["srcdoc"] == seen.page and attributes["sandbox"] == "allow-scripts"
    assert "<title>a model: attention and attributions</title>" in seen.page
    with pytest.raises(ValueError, match="Pass one text, or two for a pair; got 3"):
        visualize(bert, "a", "b", "c")


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (PageOptions(["head"]), "`views` must be some of heads, .* got head; choose"),
        (PageOptions(layers=[2]), "`layers` must be numbers of layers, from 0 to 1; got 2; choose"),
        (PageOptions(["heads"], target="good"), "`target` requires the view attribution; got heads"),
        (PageOptions(target="ugly"), "`target` must be one of the model's labels, bad, good"),
    ],
)
def test_what_is_refused(bert, choices, message):
    with pytest.raises(ValueError, match=message):
        gather(bert, ["a film"], choices)


@pytest.mark.slow
def test_targets_as_words(bert):
    [row] = inspect.layers(bert, [("is it good", "The films, a story")])
    assert target_of(bert, row, "good") == "good" and target_of(bert, row, "2") == 2
    tagger = with_words(ClassificationHead(2, 0.0), ["B-X", "O"])
    tagger.config.extra["architectures"] = ["BertForTokenClassification"]
    assert target_of(tagger, row, "3") == (3, None) and target_of(tagger, row, "3:B-X") == (3, "B-X")
    with pytest.raises(ValueError, match="`target` must be the index of a word from 0, such as 3, or with a tag, 3:B"):
        target_of(tagger, row, "films")
    reader = with_words(others=weights_of(QuestionAnsweringHead(), tagger.config))
    assert target_of(reader, row, "films") == (4, 9) and target_of(reader, row, "4:9") == (4, 9)
    for model, target, answer in ((tagger, "4:B-X", "B-X"), (reader, "films", "films")):
        facts = gather(model, row.texts, PageOptions(["attribution"], target=target)).facts
        first, last = facts["attribution"]["places"]
        assert facts["attribution"]["target"] == answer
        assert {facts["words"][n]["text"] for n in facts["word_of_token"][first : last + 1]} == {"films"}
    with pytest.raises(ValueError, match="`target` must be a part of the context, or its start and end in characters"):
        target_of(reader, row, "dogs")


@pytest.mark.slow
def test_see_writes_a_page_or_says_what_is_wrong(tmp_path):
    model, page = tiny.checkpoint(tmp_path / "model"), tmp_path / "page.html"
    start, end = [f"--model={model}", "a film"], [f"--output_file={page}"]
    wrong = {
        "--views=attribution": r"Attributions require a head for labels, tags or answers; .* has no such head\. Use",
        "--layers=0,1": r"--layers must be numbers of layers, from 0 to 0; got 1; choose among them",
        "--layers=first": r"--layers must be numbers separated by commas; got first",
        "film " * 31 + "film": r"at most 32 tokens, .* Text 1 of 1 has 37. Shorten it",
        "--top_k=3 --views=heads": r"--top_k requires the view logit_lens",
    }
    cases = [[*start, *(word.split() if word[0] == "-" else [word]), *end] for word in wrong]
    *refused, three, done = (
        run_cases.run_here("visualize", words) for words in [*cases, [*start, "b", "c", *end], [*start, *end]]
    )
    assert three["status"] == 1 and "Pass one text, or two for a pair; got 3" in three["log"]
    for each, message in zip(refused, wrong.values(), strict=True):
        assert each["status"] == 1 and re.search(message, each["log"]), each["log"]
        assert each["log"].count("Error:") == 1
    assert done["status"] == 0 and "Open it in a browser" in done["log"], done["log"]
    assert "<title>model: attention and attributions</title>" in page.read_text(encoding="utf-8")


def test_the_flag_names_all_views():
    [flag] = [flag for flag in FLAGS if flag.name == "views"]
    assert flag.choices == VIEWS
