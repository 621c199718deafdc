"""The page in a real browser: models whose every name means harm, and pages from elsewhere that ask the server."""

import asyncio
import http.server
import json
import re
import threading
import urllib.parse

import pytest

from bert_tf.serving.server import rest_api, web_page
from bert_tf.utils import html_report
from tests.serving import browser
from tests.serving.models import serve_quickly
from tests.serving.page_test import registry

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not browser.PATH, reason="there is no Chromium on this machine"),
]
SCRIPT = "window.hacked=1"
HARM = (
    f"</script><script>{SCRIPT}</script>",
    f"<img src=x onerror={SCRIPT}>",
    f"\"'><svg onload={SCRIPT}>",
    f"javascript:{SCRIPT}",
    f"</textarea></option></select><iframe srcdoc='<script>parent.{SCRIPT}</script>'>",
    f"<a href='javascript:{SCRIPT}'>`${{{SCRIPT}}}`</a>",
)
SIGNATURE = {"method_name": "tensorflow/serving/predict"}
PROBABILITIES = [0.5, *[0.1] * 5]
# What the page knows how to show; the texts in it are all hostile.
ANSWERS = {
    "labels": {"label": HARM[0], "labels": list(HARM), "probabilities": PROBABILITIES},
    "names": {
        "entity": list(HARM), "type": list(HARM), "start": [*range(6)], "end": [*range(1, 7)], "entity_count": 6
    },
    "blanks": {"token": list(HARM), "probability": PROBABILITIES},
    "answers": {"answer": HARM[1], "start": 0, "end": 9},
    "anything": {HARM[0]: HARM[1], HARM[2]: [HARM[3], {"x": HARM[4]}]},
    "errors": {"error": HARM[1]},
}  # fmt: skip
WORDS = {"piece": list(HARM), "start": [*range(6)], "end": [*range(1, 7)], "of_text": [0] * 6}
EXPLANATION = {
    **WORDS, "attribution": PROBABILITIES, "target": HARM[0], "score": 1.0, "baseline_score": 0.5, "gap": 0.0,
    "steps": 32,
}  # fmt: skip


def _inputs(*names):
    return {name: {"dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": "-1"}]}} for name in names}


class Hostile(http.server.BaseHTTPRequestHandler):
    """A model server whose models, inputs, outputs, signatures and answers are all hostile texts."""

    def do_GET(self):
        path = urllib.parse.unquote(self.path)
        if found := web_page.pages(registry(**{f"{kind} {HARM[2]}": {1: "AVAILABLE"} for kind in ANSWERS})).get(path):
            reply = found()
            return self._reply(reply.kind, reply.data, reply.headers)
        kind = re.match(r"/v1/models/(\w+)", path)[1]
        own = SIGNATURE | {"inputs": _inputs("context" if kind == "answers" else HARM[4]), "outputs": ANSWERS[kind]}
        why = SIGNATURE | {"inputs": {**own["inputs"], **_inputs("target")}, "outputs": EXPLANATION}
        signatures = {HARM[5]: own, HARM[1]: own, HARM[2]: why}
        self._json({"metadata": {"signature_def": {"signature_def": signatures}}})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = re.match(r"/v1/models/(\w+)", urllib.parse.unquote(self.path))[1]
        answer = EXPLANATION if asked["signature_name"] == HARM[2] else ANSWERS[kind]
        self._json(answer if "error" in answer else {"predictions": [answer]})

    def log_message(self, *arguments):
        pass

    def _json(self, value):
        self._reply("application/json", json.dumps(value).encode(), {})

    def _reply(self, kind, body, headers):
        self.send_response(500 if b'{"error"' in body[:8] else 200)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def hostile():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


# What could run or lead away; the page has one script and two links in its head.
DANGERS = """[...document.querySelectorAll(
  'script, iframe, object, embed, img, svg, a, base, form[action], [href], [src], [srcdoc]')].filter((each) =>
  !each.closest('head')).map((each) => each.outerHTML)"""
DONE = "document.getElementById('form').getAttribute('aria-busy') === 'false' && document.body.textContent"


async def look(address, *steps):
    """Returns what the page shows after each step, having checked that nothing ran and nothing else was asked for."""
    async with browser.Browser() as page_:
        await page_.command("Page.enable")
        await page_.command("Page.navigate", url=address)
        shown = [await page_.until(DONE)]
        for step in steps:
            await page_.evaluate(step)
            shown.append(await page_.until(DONE))
        await page_.evaluate("new Promise((done) => setTimeout(done, 200))")
        assert await page_.evaluate("window.hacked") is None
        assert await page_.evaluate(DANGERS) == []
        origin = urllib.parse.urlsplit(address)[:2]
        asked = [urllib.parse.urlsplit(each) for each in page_.requested if not each.startswith("data:")]
        assert {each[:2] for each in asked} == {origin}, asked
        errors = [json.dumps(each) for each in page_.errors]
        assert not [each for each in errors if "Content Security Policy" in each or "exception" in each.lower()], errors
        return shown


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_name_of_a_model_is_text(hostile, kind):
    name = f"{kind} {HARM[2]}"
    field = "context" if kind == "answers" else HARM[4]
    query = urllib.parse.urlencode({"model": name, field: HARM[1], "signature": HARM[5]}, quote_via=urllib.parse.quote)
    explain = "document.querySelector('.offers button')?.click()"
    shown = asyncio.run(look(f"{hostile}/#{query}&send", explain))[-1]
    assert name in shown and HARM[5] in shown  # in the lists of models and signatures
    if kind == "errors":
        assert HARM[1] in shown
    elif kind != "anything":
        assert all(each in shown for each in (HARM if kind != "answers" else HARM[1:2]))


@pytest.mark.parametrize("name", ["__proto__", "constructor", "toString"])
def test_names_that_every_object_of_javascript_has(hostile, name):
    asyncio.run(look(f"{hostile}/#{name}=x&model={name}"))
    asyncio.run(look(f"{hostile}/#{name}=x&model=labels {urllib.parse.quote(HARM[2])}&send"))


def test_the_policy_holds_where_markup_would_get_in(hostile):
    """What the page's own code does not do is done here by hand: the browser runs none of it."""

    async def work():
        async with browser.Browser() as page_:
            await page_.command("Page.navigate", url=hostile)
            await page_.until(DONE)
            for each in HARM:
                await page_.evaluate(f"document.body.insertAdjacentHTML('beforeend', {json.dumps(each)})")
            await page_.evaluate("document.querySelector('a').click()")
            await page_.evaluate(f"(() => {{ const script = document.createElement('script'); "
                                 f"script.textContent = '{SCRIPT}'; document.body.append(script); }})()")  # fmt: skip
            await page_.evaluate("fetch('https://evil.example/').catch(() => 0)")
            await page_.evaluate("new Promise((done) => setTimeout(done, 500))")
            return await page_.evaluate("window.hacked"), page_.requested, json.dumps(page_.errors)

    hacked, requested, errors = asyncio.run(work())
    assert hacked is None and errors.count("Content Security Policy") >= 5
    assert not any("evil.example" in each for each in requested)


def _draw(axes):
    for n, each in enumerate(HARM):
        axes.text(0, n / 6, each).set_in_layout(False)


def test_a_report_of_hostile_names_is_text(tmp_path):
    document = html_report.Page(HARM[0])
    for each in HARM:
        document.heading(each)
        document.text(each)
        document.table(each, [HARM, HARM], [*HARM])
        document.table(each, [(each, each)])
    document.figure(HARM[1], _draw, label=HARM[2])
    (tmp_path / "report.html").write_text(document.html(), "utf-8")

    async def work():
        async with browser.Browser() as page_:
            await page_.command("Page.navigate", url=f"file://{tmp_path}/report.html")
            await page_.until("document.querySelectorAll('h2').length")
            await page_.evaluate("document.querySelectorAll('nav a').forEach((each) => each.click())")
            await page_.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.hacked=1>')")
            await page_.evaluate("new Promise((done) => setTimeout(done, 200))")
            return (await page_.evaluate("window.hacked"), await page_.evaluate("document.body.textContent"),
                    await page_.evaluate("[...document.querySelectorAll('script, iframe, [onload]')].length"),
                    await page_.evaluate("[...document.querySelectorAll('a')].map((a) => a.getAttribute('href'))"),
                    await page_.evaluate("getComputedStyle(document.querySelector('main')).maxWidth"))  # fmt: skip

    hacked, shown, dangers, links, width = asyncio.run(work())
    assert hacked is None and dangers == 0 and all(each in shown for each in HARM)
    assert links and all(re.fullmatch(r"#part\d+", each) for each in links)
    assert width == "1216px"  # the page's own style still counts


@pytest.fixture
def asked(monkeypatch):
    """The bodies of the predictions that the server in this process was asked for over REST, as a list that grows."""
    bodies, predict = [], rest_api._ANSWERS["predict"]
    monkeypatch.setitem(
        rest_api._ANSWERS, "predict", lambda *arguments: bodies.append(arguments[2]) or predict(*arguments)
    )
    return bodies


def test_a_page_from_elsewhere_reaches_nothing(hostile, film, asked):
    """Its own origin is another port; it also has its own name lead to this machine, as DNS rebinding does."""
    url = f"http://localhost:{film.rest_port}/v1/models/film"
    question = json.dumps({"instances": ["fine"]})

    async def work():
        async with browser.Browser("--host-resolver-rules=MAP evil.example 127.0.0.1") as page_:
            await page_.command("Page.navigate", url=hostile.replace("http://localhost", "http://evil.example"))
            await page_.until("location.host.startsWith('evil.example') && document.readyState === 'complete'")
            here = await page_.evaluate("location.origin")
            await page_.command("Page.setBypassCSP", enabled=True)
            await page_.command("Page.reload")
            await page_.until("document.readyState === 'complete'")
            found = []
            for kind in ("text/plain", "application/json"):
                for mode in ("cors", "no-cors"):
                    options = {"method": "POST", "body": question, "mode": mode, "headers": {"Content-Type": kind}}
                    found.append(await _fetched(page_, f"{url}:predict", options))
            await page_.command("Page.navigate", url=url.replace("localhost", "evil.example"))
            await page_.until("document.body && document.body.textContent.includes('error')")
            rebound = await page_.evaluate("document.body.textContent")
            same = await _fetched(page_, url.replace("localhost", "evil.example") + ":predict",
                                  {"method": "POST", "body": question})  # fmt: skip
            return here, found, rebound, same

    here, found, rebound, same = asyncio.run(work())
    assert here.startswith("http://evil.example:")
    assert not any("predictions" in each for each in found) and not asked
    assert "the request was for evil.example" in rebound and "the request was for evil.example" in same


async def _fetched(page_, url, options):
    await page_.evaluate(
        f"window.said = ''; fetch({json.dumps(url)}, {json.dumps(options)}).then((r) => r.text()).then("
        "(text) => { window.said = `text ${text}` }, (error) => { window.said = `error ${error}` })"
    )
    return await page_.until("window.said")


def test_the_page_asks_its_own_server(film_path, asked):
    with serve_quickly(film_path, ui=True) as server:
        for host in ("localhost", "127.0.0.1"):
            shown = asyncio.run(look(f"http://{host}:{server.rest_port}/#model=film&text=a%20fine%20film&send"))
            assert "good, 75.0%" in shown[0]
    assert len(asked) == 2
