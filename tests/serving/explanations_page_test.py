"""The page to try a model on, where the model explains itself: what a browser shows of real explanations."""

import asyncio
import contextlib
import urllib.parse

import numpy as np
import pytest

from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained
from bert_tf.serving.client.client import Client
from bert_tf.serving.server.server import serve
from tests.export.models import write_trained
from tests.serving import browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not browser.PATH, reason="there is no Chromium on this machine"),
]
TEXT = "😀 The films, a <b>good</b> story"
CONTEXT = "music, and people"


@contextlib.contextmanager
def serving(folder, task):
    """Gives a server of a tiny model of a task that explains itself."""
    write_trained(folder, task)
    out = str(folder / "out")
    export_trained(str(folder), out, ExportOptions(explanations=("attention", "attributions")))
    with serve(out, "tiny", poll_seconds=0, ui=True) as server:
        yield server


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("films"), "classification") as server:
        yield server


WORDS = "[...document.querySelectorAll('.word')].map((each) => [...each.children].map((part) => part.textContent))"
STYLES = """[...document.querySelectorAll('.word')].map((each) => {
  const { borderBottomStyle, borderBottomWidth } = getComputedStyle(each);
  return [borderBottomStyle, parseFloat(borderBottomWidth)];
})"""
FOCUS = "document.activeElement.firstChild.textContent"


async def open_page(page, server, **query):
    link = urllib.parse.urlencode(query, quote_via=urllib.parse.quote)
    await page.command("Page.navigate", url=f"http://localhost:{server.rest_port}/#{link}&send")
    await page.until("!!document.querySelector('.offers button')")


def test_words_by_keyboard(films):
    async def work():
        async with browser.Browser() as page:
            await open_page(page, films, model="tiny", text=TEXT)
            offered = await page.evaluate("[...document.querySelectorAll('.offers button')].map((b) => b.textContent)")
            await page.evaluate("document.querySelector('.offers button').focus()")
            await page.press("Enter", 13)
            await page.until("document.querySelectorAll('.word').length")
            seen = {"offered": offered, "words": await page.evaluate(WORDS), "styles": await page.evaluate(STYLES),
                    "text": await page.evaluate("document.querySelector('p.words').textContent"),
                    "cells": await page.evaluate("[...document.querySelectorAll('section section td')].map((c) => "
                                                 "c.textContent)"),
                    "select": await page.evaluate("[...document.querySelectorAll('section select option')].map((o) => "
                                                  "o.value)")}  # fmt: skip
            await page.press("Tab", 9)  # from the heading to the choice of a label
            await page.press("Tab", 9)
            seen["first"] = await page.evaluate(FOCUS)
            await page.press("End", 35)
            await page.press("ArrowLeft", 37)
            seen["focus"] = await page.evaluate(FOCUS)
            seen["told"] = await page.evaluate("document.querySelector('.told').textContent")
            seen["link"] = await page.evaluate("location.hash")
            for scheme in ("light", "dark"):
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                await page.command("Emulation.setEmulatedMedia", features=features)
                seen[scheme] = await page.evaluate(browser.CONTRAST)
            return seen, page.errors, page.requested

    seen, errors, requested = asyncio.run(work())
    asked = {urllib.parse.urlsplit(each).netloc for each in requested if not each.startswith("data:")}
    assert not errors and asked == {f"localhost:{films.rest_port}"}
    with Client(f"localhost:{films.port}", "tiny") as client:
        answer = client.predict({"text": [TEXT], "target": [""]}, "attributions")
    assert seen["offered"] == ["Word attributions", "Attention weights"]
    read = ["😀", "The", "films", ",", "a", "<", "b", ">", "good", "<", "/", "b", ">"]  # the rest was cut
    assert [word for word, _ in seen["words"]] == read
    assert seen["text"].endswith(" story")
    starts = [TEXT.index("films"), TEXT.index("films") + 4]
    values = answer["attribution"][0]
    expected = sum(values[answer["start"][0].tolist().index(start)] for start in starts)
    assert float(dict(seen["words"])["films"]) == pytest.approx(expected, abs=0.006)
    widths = [width for _, width in seen["styles"]]
    assert max(widths) >= 4 and {style for style, _ in seen["styles"]} <= {"solid", "dotted"}
    for (style, _), (_, number) in zip(seen["styles"], seen["words"], strict=True):
        assert float(number) == 0 or style == ("dotted" if number.startswith("-") else "solid")
    assert seen["select"][0] == answer["target"][0].decode() and sorted(seen["select"]) == ["bad", "good"]
    assert seen["cells"][0] == f"{answer['score'][0]:.3f}" and seen["cells"][3] == f"{100 * answer['gap'][0]:.1f}%"
    assert seen["first"] == "😀" and seen["focus"] == seen["words"][-2][0]
    assert seen["told"].startswith(f"“{seen['focus']}” contributes") and "Its tokens:" in seen["told"]
    assert seen["link"].endswith("&send&explain") and min(seen["light"], seen["dark"]) >= 4.5


def test_another_label_and_attention(films):
    async def work():
        async with browser.Browser() as page:
            await open_page(page, films, model="tiny", text="a good film")
            await page.point(".offers button", click=True)
            await page.until("!!document.querySelector('section select')")
            await page.until("!!document.querySelector('.word')")
            other = await page.evaluate("""(() => {
              const select = document.querySelector('section select');
              select.value = select.options[1].value;
              select.dispatchEvent(new Event('change'));
              return select.value;
            })()""")
            await page.until(f"document.querySelector('section strong')?.textContent === '{other}'")
            await page.point(".offers button:last-child", click=True)
            await page.until("document.querySelectorAll('.own').length")
            tokens = await page.evaluate(WORDS.replace(".word", "p.words[role=group] .word"))
            await page.point("p.words[role=group] .word:nth-child(3)")
            told = "[...document.querySelectorAll('.told')].pop().textContent"
            told = await page.until(f"{told}.startsWith('Attention weights from good')")
            await page.evaluate("""(() => {
              const layer = document.querySelector('input[type=number]');
              layer.value = 7;
              layer.dispatchEvent(new Event('change'));
            })()""")
            error = await page.until("document.getElementById('error').textContent")
            return tokens, told, error, page.errors

    tokens, told, error, errors = asyncio.run(work())
    assert [token for token, _ in tokens] == ["[CLS]", "a", "good", "film", "[SEP]"] and told
    with Client(f"localhost:{films.port}", "tiny") as client:
        looked = client.predict({"text": ["a good film"], "layers": np.array([[-1]], np.int32)}, "attention")
    shares = 100 * looked["attention"][0, 0].mean(0)[0]
    np.testing.assert_allclose([int(number) for _, number in tokens], shares, atol=0.51)
    assert "`layers` must be from 0 to 0" in error
    assert all("400" in str(each) for each in errors)  # the browser's own line on the refused request


def test_the_page_shows_an_explained_answer(tmp_path):
    with serving(tmp_path, "questions") as server:

        async def work():
            async with browser.Browser() as page:
                await open_page(page, server, model="tiny", question="is it good", context=CONTEXT)
                await page.point(".offers button", click=True)
                await page.until("document.querySelectorAll('.word').length")
                both = ("document.querySelector('section strong')", "document.getElementById('summary')")
                return [await page.evaluate(f"{each}.textContent") for each in both], await page.evaluate(WORDS)

        (explained, answered), words = asyncio.run(work())
    assert explained == answered and explained in CONTEXT
    assert [word for word, _ in words] == ["is", "it", "good", "music", ",", "and", "people"]
