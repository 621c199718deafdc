"""A page as a browser shows it: no request, no fault, by keyboard alone, by day and by night."""

import asyncio
import base64
import io

import numpy as np
import pytest
from PIL import Image

from bert_tf.evaluation.error_reports.page_parts import render_errors, render_headline, render_overview
from bert_tf.utils.html_report import Page
from tests.evaluation.error_reports.support import NASTY, choices
from tests.serving.browser import CONTRAST, PATH, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PATH, reason="there is no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    names = [NASTY, "<img src='http://localhost/x.png'>", *(f"label {i}" for i in range(40))]
    chances = rng.dirichlet(np.full(len(names), 0.1), 200)
    texts = [f"{NASTY} " * (1 + i % 20) for i in range(200)]
    whole = Page("Run")
    judged = {"dev": choices(rng.integers(0, 42, 200), chances, names, texts)}
    with whole.cards():
        whole.keep("headline", render_headline(judged, {"eval_accuracy": 0.5, "eval_f1": 0.25}, 7))
        whole.keep("overview", render_overview(judged))
    whole.keep("eval", render_errors(judged))
    for i in range(4):
        whole.table(f"table {i}", [("a", 1, "remark")])
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(whole.html(), encoding="utf-8")
    return path


async def _open(browser, page, scheme):
    await browser.command("Page.enable")
    await browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    await browser.command("Page.navigate", url=page.as_uri())
    await browser.until("document.readyState === 'complete' && document.querySelectorAll('details').length > 5")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_legible_and_loads_nothing(page, scheme):
    async def look():
        async with Browser() as browser:
            await _open(browser, page, scheme)
            shot = await browser.command("Page.captureScreenshot")
            found = await browser.evaluate(CONTRAST), await browser.evaluate("document.querySelector('img, script')")
            return *found, browser.requested, browser.errors, Image.open(io.BytesIO(base64.b64decode(shot["data"])))

    contrast, markup, requested, errors, shot = asyncio.run(look())
    assert contrast >= 4.5 and markup is None
    assert requested == [page.as_uri()] and errors == []
    brightness = np.asarray(shot.convert("L")).mean()
    assert brightness > 200 if scheme == "light" else brightness < 60


def test_its_sections_open_by_keyboard(page):
    closed = "document.querySelector('section > details:not([open]) > summary')"

    async def type_keys():
        async with Browser() as browser:
            await _open(browser, page, "light")
            name = await browser.evaluate(f"{closed}.textContent")
            for _ in range(60):
                await browser.press("Tab", 9)
                if await browser.evaluate("document.activeElement.textContent") == name:
                    break
            outline = await browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            await browser.press(" ", 32)
            return outline, await browser.evaluate("document.activeElement.parentElement.open")

    assert asyncio.run(type_keys()) == ("solid", True)


def test_its_contents_lead_to_the_headings(page):
    async def follow():
        async with Browser() as browser:
            await _open(browser, page, "light")
            await browser.press("Tab", 9)
            assert await browser.evaluate("document.activeElement.tagName") == "A"
            await browser.evaluate("document.querySelectorAll('nav a')[2].click()")
            return await browser.evaluate("document.querySelector(':target').textContent")

    assert asyncio.run(follow()) == "table 1"
