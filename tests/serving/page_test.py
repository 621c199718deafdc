"""The page to try a model on: its files as the server gives them, and what a browser makes of them."""

import asyncio
import contextlib
import functools
import html.parser
import http.server
import io
import json
import re
import shlex
import subprocess
import threading
import types
import urllib.error
import urllib.parse
import urllib.request

import pytest

from bert_tf.serving.server import web_page
from bert_tf.serving.server.versions import State
from tests.serving import browser
from tests.serving.models import serve_quickly

SCRIPTS = ("page", "answers", "elements", "examples", "explanations", "requests")
PATHS = ("/", "/ui/page.css", *(f"/ui/{name}.js" for name in SCRIPTS))
needs_browser = pytest.mark.skipif(not browser.PATH, reason="there is no Chromium on this machine")


def registry(**models):
    """Returns a registry of {name: {version: name of its state}}."""
    states = {name: {number: State(state) for number, state in each.items()} for name, each in models.items()}
    return types.SimpleNamespace(names=lambda: list(states), states=states.get)


def test_the_files_have_their_types_and_a_policy_that_keeps_them_here():
    replies = [web_page.pages(registry())[path]() for path in PATHS]
    assert [(reply.status, reply.kind.partition(";")[0]) for reply in replies] == [
        (200, f"text/{kind}") for kind in ("html", "css", *["javascript"] * len(SCRIPTS))
    ]
    for reply in replies:
        assert reply.kind.endswith("charset=utf-8")
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def test_nothing_in_the_files_leads_elsewhere():
    texts = [web_page.pages(registry())[path]().data.decode() for path in PATHS]
    for text in texts:
        assert not re.search(r"https?:|//[a-z]+\.|@import|@font-face|url\(", text)
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|\bon\w+=", text)
    named = set(re.findall(r'(?:src|href)="([^"]+)"', texts[0])) - {"data:,"}
    named |= {f"ui/{name}" for text in texts for name in re.findall(r'^import .* from "\./([^"]+)";$', text, re.M)}
    assert {f"/{name}" for name in named} | {"/"} == set(PATHS)


def test_the_models_are_listed_with_the_versions_that_can_be_asked():
    squad, films = {1: "END", 3: "AVAILABLE", 20: "AVAILABLE"}, {2**62: "AVAILABLE", 1: "LOADING"}
    models = registry(squad=squad, films=films, no={})
    reply = web_page.pages(models)["/ui/models.json"]()
    assert (reply.status, reply.kind) == (200, "application/json")
    assert json.loads(reply.data) == {
        "models": [
            {"name": "films", "versions": [str(2**62)]},
            {"name": "no", "versions": []},
            {"name": "squad", "versions": ["20", "3"]},
        ]
    }


def test_nothing_else_is_the_pages():
    assert set(web_page.pages(registry())) == {*PATHS, "/ui/models.json"}


@pytest.fixture(scope="module")
def shown(film_path):
    """A server of the model `Film` that has the page."""
    with serve_quickly(film_path, ui=True) as server:
        yield f"http://localhost:{server.rest_port}"


def test_the_server_has_the_page_only_where_it_was_asked_for(shown, film):
    with urllib.request.urlopen(f"{shown}/", timeout=60) as response:
        assert response.read() == web_page.pages(registry())["/"]().data
        for name, value in web_page.PAGE_HEADERS.items():
            assert response.headers[name] == value
    with urllib.request.urlopen(f"{shown}/ui/models.json", timeout=60) as response:
        assert json.load(response) == {"models": [{"name": "film", "versions": ["3"]}]}
    without = f"http://localhost:{film.rest_port}"
    for url in (f"{without}/", f"{shown}/ui/", f"{shown}/ui/../page.js", f"{shown}/ui/page.html"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url, timeout=60)


class Dom(html.parser.HTMLParser):
    """What a browser made of the page.

    Attributes:
        ids: {id: text of the element}.
        marks: texts of the marked parts.
        rows: cells of each row of the tables.
        fields: names of the fields to type in, in order.
        tags: all tags.
        code: texts of the code boxes.
    """

    def __init__(self, text):
        super().__init__()
        self.ids, self.marks, self.rows, self.fields, self.tags = {}, [], [], [], []
        self._open, self.code = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        if tag in ("textarea", "input"):
            self.fields.append(attrs["name"])
        if tag not in ("meta", "link", "input", "br"):
            self._open.append((tag, attrs.get("id")))
        if "id" in attrs:
            self.ids[attrs["id"]] = ""
        if tag == "mark":
            self.marks.append("")
        if tag == "pre" and "aria-label" in attrs:
            self.code.append("")
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for tag, name in self._open:
            if name:
                self.ids[name] += data
            if tag == "mark":
                self.marks[-1] += data
            if tag == "pre" and self.code:  # those of the answer come before the code boxes
                self.code[-1] += data
            if tag in ("th", "td"):
                self.rows[-1][-1] += data


def browse(url, **query):
    """Returns the Dom of the page once it has asked what `query` says."""
    link = urllib.parse.urlencode(query, doseq=True, quote_via=urllib.parse.quote)
    command = [browser.PATH, *browser.FLAGS, "--dump-dom", "--virtual-time-budget=20000", f"{url}/#{link}&send"]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return Dom(done.stdout.decode())


# What models of each task take and return, as in docs/reference/rest_grpc.md; the contexts hold characters that
# JavaScript counts as two.
SPY = "😀 <b>Emma</b> was written by 𝒥ane Austen."
MODELS = {
    "films": (["text"], {
        "label": "<i>good</i>", "probabilities": [0.02, 0.98], "labels": ["bad", "<i>good</i>"]
    }),
    "squad": (["context", "question"], {
        "answer": "𝒥ane Austen", "start": 29, "end": 40, "score": 11.25, "null_score": -7.5,
    }),
    "names": (["text"], {
        "entity": ["<b>Emma</b>", "𝒥ane Austen", ""], "type": ["WORK", "PER", ""], "start": [2, 29, 0],
        "end": [13, 40, 0], "score": [0.9, 0.8, 0.0], "entity_count": 2,
    }),
    "swag": (["context", "choices"], {"choice": 1, "probabilities": [0.25, 0.75]}),
    "rank": (["query", "documents"], {"scores": [0.25, 0.75, 0.0], "order": [1, 0, -1]}),
    "stars": (["text"], {"score": 3.5}),
    "genres": (["text"], {
        "label": "war", "probabilities": [0.3, 0.4, 0.1], "labels": ["art", "war", "zoo"],
        "predicted": [True, True, False],
    }),
    "plain": (["text"], {
        "label": "war", "probabilities": [0.3, 0.4], "labels": ["art", "war"], "predicted": [False, False],
    }),
    "blanks": (["text"], {"token": ["cat", "##s"], "probability": [0.5, 0.125]}),
    "vectors": (["text"], {"embedding": None}),
    "full": (["text"], {"error": "The <b>queue</b> is full."}),
    "odd": (["text"], {"y": float("nan"), "z": 1.0}),
    "rating": (["text"], {"rating": 3, "expected_rating": 2.75, "note": "<b>fair</b>", "shares": [0.25, 0.75]}),
}  # fmt: skip
VECTORS = ([1.0, 0.0], [0.0, 1.0], [0.8, 0.6])


class Stub(http.server.BaseHTTPRequestHandler):
    """Answers as a model server would, without a model; keeps what it was asked."""

    def do_GET(self):
        path = urllib.parse.unquote(self.path)
        models = registry(**{name: {1: "AVAILABLE"} for name in MODELS}, gone={2: "END"})
        if found := web_page.pages(models).get(path):
            reply = found()
            self._reply(reply.status, reply.kind, reply.data)
        elif match := re.fullmatch(r"/v1/models/(\w+)/metadata", path):
            inputs, outputs = MODELS[match[1]]
            rank = {name: 1 + (name in ("choices", "documents")) for name in inputs}
            infos = {
                name: {"dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": "-1"}] * n}} for name, n in rank.items()
            }
            signature = {"inputs": infos, "outputs": dict.fromkeys(outputs, {}),
                         "method_name": "tensorflow/serving/predict"}  # fmt: skip
            self._json({"metadata": {"signature_def": {"signature_def": {"serving_default": signature}}}})
        else:
            self.server.strays.append(path)
            self._reply(404, "text/plain", b"")

    def do_POST(self):
        name = re.fullmatch(r"/v1/models/(\w+):predict", self.path)[1]
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        outputs = MODELS[name][1]
        if "error" in outputs:
            return self._json(outputs, 503)
        rows = list(VECTORS) if name == "vectors" else [outputs if len(outputs) > 1 else outputs["score"]]
        self._json({"predictions": rows[: len(asked["instances"])]})

    def log_message(self, *arguments):
        pass

    def _json(self, value, status=200):
        self._reply(status, "application/json", json.dumps(value).encode())

    def _reply(self, status, content_type, body, headers=web_page.PAGE_HEADERS):
        self.send_response(status)
        for header in ({"Content-Type": content_type, "Content-Length": str(len(body))}, headers):
            for name, value in header.items():
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def stub():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        server.asked, server.strays = [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
    assert not server.strays, "the page asked for something else"


@pytest.fixture(scope="module")
def ask(stub):
    """ask(model=..., **texts) -> Dom of the page with the stub's answer."""
    return functools.partial(browse, f"http://localhost:{stub.server_port}")


@needs_browser
@pytest.mark.slow
def test_labels_have_bars_and_nothing_becomes_markup(ask, stub):
    dom = ask(model="films", text="A <script>fine</script> film & more.")
    assert stub.asked[-1] == {
        "signature_name": "serving_default",
        "instances": [{"text": "A <script>fine</script> film & more."}],
    }
    assert dom.ids["summary"] == "<i>good</i>, 98.0%" and not dom.ids["error"]
    assert dom.rows == [["<i>good</i>", "", "98.0%"], ["bad", "", "2.0%"]]
    assert dom.tags.count("script") == 1 and "i" not in dom.tags


@needs_browser
@pytest.mark.slow
def test_the_request_is_shown_as_code_that_sends_the_same(ask, stub):
    text = "It's \"good\" $HOME `x` \\ ü 😀"
    dom = ask(model="films", text=text)
    sent = stub.asked[-1]
    curl, python = dom.code
    command = shlex.split(curl)
    assert command[0] == "curl" and json.loads(command[command.index("-d") + 1]) == sent
    assert command[3] == f"http://localhost:{stub.server_port}/v1/models/films:predict"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(python, {})
    assert stub.asked[-1] == sent and "<i>good</i>" in printed.getvalue() and len(stub.asked) > 1


@needs_browser
@pytest.mark.slow
def test_an_example_is_predicted_with_a_click(stub):
    async def work():
        async with browser.Browser() as page_:
            await page_.command("Page.navigate", url=f"http://localhost:{stub.server_port}/#model=films")
            await page_.point("#examples button:nth-of-type(2)", click=True)
            shown = await page_.until("document.getElementById('summary').textContent")
            return shown, await page_.evaluate("document.querySelector('.code pre').textContent"), page_.errors

    shown, code, errors = asyncio.run(work())
    text = "A dull and lifeless film with a plot that makes no sense at all."
    assert shown == "<i>good</i>, 98.0%" and not errors
    assert stub.asked[-1]["instances"] == [{"text": text}] and text in code


@needs_browser
@pytest.mark.slow
def test_an_answer_is_marked_in_its_context_by_characters(ask):
    dom = ask(model="squad", question="Who wrote it?", context=SPY)
    assert dom.fields == ["question", "context"]
    assert dom.ids["summary"] == "𝒥ane Austen" and dom.marks == ["𝒥ane Austen"]
    assert SPY in dom.ids["answer"]
    assert dom.rows == [["Score", "11.250"], ["Score of “no answer”", "-7.500"]]


@needs_browser
@pytest.mark.slow
def test_entities_are_marked_with_their_types(ask):
    dom = ask(model="names", text=SPY)
    assert dom.marks == ["<b>Emma</b>WORK", "𝒥ane AustenPER"]
    assert dom.ids["summary"] == "2 entities: PER, WORK"
    assert dom.rows == [["<b>Emma</b>", "WORK", "90.0%"], ["𝒥ane Austen", "PER", "80.0%"]]


@needs_browser
@pytest.mark.slow
def test_choices_have_a_field_and_a_bar_each(ask, stub):
    dom = ask(model="swag", context="She opens the door.", choices=["She walks in.", "", "She shuts it."])
    assert dom.fields == ["context", "choices", "choices", "choices"]
    assert stub.asked[-1]["instances"] == [
        {"context": "She opens the door.", "choices": ["She walks in.", "She shuts it."]}
    ]
    assert dom.ids["summary"] == "She shuts it."
    assert dom.rows == [["She walks in.", "", "25.0%"], ["She shuts it.", "", "75.0%"]]


@needs_browser
@pytest.mark.slow
def test_documents_are_shown_in_their_order(ask):
    dom = ask(model="rank", query="Where is it?", documents=["In Rome.", "Here."])
    assert dom.ids["summary"] == "Here."
    assert dom.rows == [["Here.", "", "0.750"], ["In Rome.", "", "0.250"]]


@needs_browser
@pytest.mark.slow
def test_texts_are_compared_by_their_vectors(ask, stub):
    dom = ask(model="vectors", text="One.\n\nTwo.\nThree.")
    assert stub.asked[-1]["instances"] == ["One.", "Two.", "Three."]
    assert dom.ids["summary"] == "Most similar: Three. (cosine 0.800)"
    assert dom.rows[:2] == [["Three.", "", "0.800"], ["Two.", "", "0.000"]]
    assert dom.rows[4] == ["2. Two.", "0.000", "1.000", "0.600"]


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "summary"),
    [
        ("stars", "Score 3.500"), ("genres", "art, war"), ("plain", "No label is predicted."),
        ("blanks", "cat, 50.0%"), ("odd", "The model responded."),
    ],
)  # fmt: skip
def test_other_answers(ask, model, summary):
    dom = ask(model=model, text="A [MASK].")
    assert dom.ids["summary"] == summary and not dom.ids["error"]
    if model == "odd":
        assert '"y": null' in dom.ids["answer"]


@needs_browser
@pytest.mark.slow
def test_a_task_that_the_page_does_not_know_is_shown_by_the_names_of_its_outputs(ask):
    dom = ask(model="rating", text="A fine film.")
    assert dom.ids["summary"] == "The model responded." and not dom.ids["error"]
    assert "rating3expected rating2.750note<b>fair</b>" in dom.ids["answer"]
    assert '"shares"' in dom.ids["answer"]


@needs_browser
@pytest.mark.slow
def test_the_page_shows_the_error_of_a_refused_request(ask):
    assert ask(model="films", text="").ids["error"] == "The field text is empty."
    assert ask(model="gone", text="A text.").ids["error"].startswith("No version of gone is available")
    assert ask(model="full", text="A text.").ids["error"] == "The <b>queue</b> is full."


@needs_browser
@pytest.mark.slow
def test_the_page_asks_the_server_itself(shown):
    dom = browse(shown, model="film", text="a fine film")
    assert dom.ids["summary"] == "good, 75.0%" and dom.ids["signature"] == "serving_defaultechopair"
    dom = browse(shown, model="film", signature="pair", text_a="a dull", text_b="film")
    assert dom.fields == ["text_a", "text_b"] and dom.ids["summary"] == "bad, 75.0%"


@needs_browser
@pytest.mark.slow
def test_the_keyboard_is_enough_and_the_page_asks_nobody_else(stub):
    url = f"http://localhost:{stub.server_port}"

    async def work():
        async with browser.Browser() as page_:
            await page_.command("Page.navigate", url=f"{url}/#model=squad")
            await page_.until("document.activeElement.name === 'question'")  # the first field, without a click
            await page_.type("Who wrote it?")
            await page_.press("Tab", 9)
            await page_.type("Emma was written by 𝒥ane Austen.")
            await page_.press("Enter", 13, modifiers=2)
            answer = await page_.until("document.getElementById('summary').textContent")
            await page_.press("Tab", 9)
            button = await page_.evaluate("document.activeElement.id")
            labels = await page_.evaluate("[...document.querySelectorAll('textarea')].every(f => f.labels.length == 1)")
            colours = []
            for scheme in ("light", "dark"):
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                await page_.command("Emulation.setEmulatedMedia", features=features)
                colours.append(await page_.evaluate("getComputedStyle(document.body).backgroundColor"))
            return answer, button, labels, colours, await page_.evaluate("location.hash"), page_.requested

    answer, button, labels, colours, link, requested = asyncio.run(work())
    assert (answer, button, labels) == ("𝒥ane Austen", "send", True)
    context = "Emma was written by 𝒥ane Austen."
    assert stub.asked[-1]["instances"] == [{"question": "Who wrote it?", "context": context}]
    assert colours == ["rgb(255, 255, 255)", "rgb(22, 25, 29)"]
    assert link.startswith("#model=squad&question=Who+wrote+it%3F&context=Emma") and link.endswith("&send")
    assert {urllib.parse.urlsplit(each).netloc for each in requested if not each.startswith("data:")} == {url[7:]}
    assert len(requested) >= 6
