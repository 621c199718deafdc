"""The page in a browser: what views do on a click, a hover and a key; no fault, no request, by day and by night."""

import asyncio
import json
import time

import numpy as np
import pytest

from bert_tf import inspect
from bert_tf.interpret.page import build_html
from bert_tf.interpret.page.array_text import pack_array
from bert_tf.interpret.page.contents import VIEWS, PageOptions, gather, pack_weights
from tests import tiny
from tests.interpret.models import with_words
from tests.interpret.page.models import PAIR, with_all_heads
from tests.serving.browser import CONTRAST, PATH, Browser

pytestmark = pytest.mark.skipif(not PATH, reason="there is no Chromium on this machine")

_TEXT = "document.querySelector({}).textContent"
_ALL = "[...document.querySelectorAll({})].map((each) => each.textContent)"


@pytest.fixture(scope="module")
def bert():
    return with_all_heads(num_hidden_layers=2, num_attention_heads=4, pruned_heads={1: (2,)})


@pytest.fixture(scope="module")
def page(bert, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(build_html(gather(bert, PAIR), "tiny"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def disentangled():
    """A model that has neither head, and scores of relative positions."""
    return with_words(pos_att_type=("c2p", "p2c"), position_buckets=4, position_biased_input=False)


@pytest.fixture(scope="module")
def headless(disentangled, tmp_path_factory):
    """Its page, of a single text."""
    path = tmp_path_factory.mktemp("headless") / "page.html"
    path.write_text(build_html(gather(disentangled, ["a film"]), "tiny"), encoding="utf-8")
    return path


async def _text(browser, selector):
    return await browser.evaluate(_TEXT.format(json.dumps(selector)))


async def _texts(browser, selector):
    return await browser.evaluate(_ALL.format(json.dumps(selector)))


async def _ready(browser, name):
    await browser.until(f"!!document.querySelector('[data-view={name}]:not([aria-busy])')")


async def _open(browser, name):
    await browser.point(f"#tab-{name}", click=True)
    await _ready(browser, name)


async def _choose(browser, label, value):
    """Chooses an option of the select that a label names."""
    await browser.evaluate(
        f"""(() => {{
          const label = [...document.querySelectorAll("label")].find((each) => each.textContent.startsWith("{label}"));
          label.control.value = {value};
          label.control.dispatchEvent(new Event("change"));
        }})()"""
    )


async def _arrow(browser, key):
    await browser.press(key, {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}[key])


@pytest.mark.slow
def test_a_visit(bert, page, disentangled, headless):
    """One start of a browser, as it is slow: view after view."""

    async def visit():
        async with Browser() as browser:
            await browser.command("Page.enable")
            size = {"width": 1280, "height": 1600, "deviceScaleFactor": 1, "mobile": False}  # all is seen at once
            await browser.command("Emulation.setDeviceMetricsOverride", **size)
            await browser.command("Page.navigate", url=page.as_uri())
            await _ready(browser, "heads")
            assert len(await _texts(browser, "#tabs button")) == len(VIEWS)
            await _look_at_heads(browser, bert)
            await _open_a_head_of_the_model(browser)
            await _look_at_neurons(browser, bert)
            await _look_at_the_others(browser, bert)
            await _move_by_keys_alone(browser)
            await _go_by_the_address(browser)
            for scheme in ("light", "dark"):
                feature = {"name": "prefers-color-scheme", "value": scheme}
                await browser.command("Emulation.setEmulatedMedia", features=[feature])
                for name in VIEWS:
                    await _open(browser, name)
                    assert await browser.evaluate(CONTRAST) >= 4.5, (scheme, name)
            await _look_for_what_is_missing(browser, headless)
            await _look_at_relative_positions(browser, disentangled)
            return browser.requested, browser.errors

    requested, errors = asyncio.run(visit())
    assert requested == [page.as_uri(), headless.as_uri()] and errors == []


async def _look_at_heads(browser, bert):
    [row] = inspect.attention(bert, [PAIR], masks=True)
    place, weights = row.tokens.index("film"), row.weights[0, 0]
    drawn = "document.querySelector('.lines canvas').toDataURL()"
    before = await browser.evaluate(drawn)
    await browser.point(f".from [data-row='{place}']")
    numbers = np.array([float(text or 0) for text in await _texts(browser, ".to .number")])
    np.testing.assert_allclose(numbers, weights[place], atol=0.006)
    said = await _text(browser, ".readout")
    assert said.startswith(f"Layer 0, head 0: “film” attends to {row.tokens[int(weights[place].argmax())]} 0.")
    assert await browser.evaluate(drawn) != before
    await browser.point(f".to [data-row='{place}']")
    assert "“film” receives attention from" in await _text(browser, ".readout")
    await browser.point("h1")
    assert set(await _texts(browser, ".number")) == {""} and await browser.evaluate(drawn) == before
    await _choose(browser, "Token pairs", 2)  # from the first text to the second
    among = weights[np.ix_(row.of_text == 0, row.of_text == 1)]
    count = int((among >= 0.1 * among.max()).sum())
    assert abs(int((await _text(browser, ".readout")).split()[5]) - count) <= 2  # as coarse as bins
    await browser.evaluate("document.querySelectorAll('button.head')[3].click()")
    assert (await _text(browser, ".readout")).startswith("Layer 0, mean of 2 heads")


async def _open_a_head_of_the_model(browser):
    await _open(browser, "model")
    await browser.point(".picture[data-layer='1'][data-head='2']")
    assert await browser.evaluate('document.querySelector(\'.picture[data-layer="1"][data-head="2"]\').disabled')
    await browser.point(".picture[data-layer='1'][data-head='3']")
    assert (await _text(browser, ".readout")).startswith("Layer 1, head 3: “")
    await browser.point(".picture[data-layer='1'][data-head='3']", click=True)
    await _ready(browser, "heads")
    assert (await _text(browser, ".readout")).startswith("Layer 1, head 3")
    assert await _texts(browser, ".head[aria-pressed='true']") == ["3"]


async def _look_at_neurons(browser, bert):
    [row] = inspect.neurons(bert, [PAIR], masks=True)
    place = row.tokens.index("story")
    await _open(browser, "neurons")
    await browser.point(f".chips [data-column='{place}']", click=True)
    await browser.until("document.querySelector('.query').textContent.includes('story')")
    cells = np.array(await _texts(browser, ".neurons tbody td")).reshape(len(row), 5)
    scores = [float(text.replace("−", "-")) for text in cells[:, 3]]
    np.testing.assert_allclose(scores, row.scores(1, 3)[place], atol=0.03)
    np.testing.assert_allclose(cells[:, 4].astype(float), row.weights[1, 3, place], atol=0.006)
    await browser.point(".neurons [data-row='2']", click=True)
    assert (await _text(browser, "h3")).startswith("“story” attends to “film”")
    products = [float(text.replace("−", "-")) for text in await _texts(browser, "h3 ~ .wide .bar")]
    expected = row.products(1, 3, place)[2]
    np.testing.assert_allclose(products, expected[np.argsort(-np.abs(expected))], atol=0.01)
    assert await browser.until("document.querySelector('.neurons canvas').width")  # drawn, as it is seen


async def _look_at_the_others(browser, bert):
    [said] = inspect.logit_lens(bert, [PAIR])
    await _open(browser, "inputs")
    await browser.until("document.querySelectorAll('.embedding').length === 5")
    await browser.evaluate("document.querySelector('summary').click()")
    await browser.until("document.querySelectorAll('details tbody tr').length === 32")
    await _open(browser, "logit_lens")
    place = said.tokens.index("[MASK]")
    await browser.point(f".cell[data-row='{place}'][data-column='2']")
    listed = await _texts(browser, ".detail tbody th")
    assert listed == said.top_tokens[2, place].tolist() and "“[MASK]”" in await _text(browser, ".detail p")
    await _open(browser, "layers")
    await browser.point("[aria-label='Compared with'] [data-column='0']", click=True)
    assert len(await _texts(browser, ".chart ~ .wide tbody")) == 2
    assert await browser.evaluate("document.querySelectorAll('.chart polyline').length") == 4
    await _open(browser, "attribution")
    assert [text for text in await _texts(browser, ".word span")] == [word.text for word in said.words]
    await browser.point(".word[data-column='1']")
    assert (await _text(browser, ".readout")).startswith("“films” contributes ")
    assert "film " in await _text(browser, ".readout") and "##s " in await _text(browser, ".readout")


async def _move_by_keys_alone(browser):
    await browser.evaluate("document.querySelector('#tab-attribution').focus()")
    await browser.press("Home", 36)
    await _ready(browser, "heads")
    assert await browser.evaluate("document.activeElement.id") == "tab-heads"
    for _ in range(40):
        await browser.press("Tab", 9)
        if await browser.evaluate("!!document.activeElement.closest('.side')"):
            break
    await _arrow(browser, "ArrowDown")
    await _arrow(browser, "ArrowRight")
    active = "document.activeElement.getAttribute('aria-label')"
    assert await browser.evaluate(active) == "to the"
    assert "“the” receives attention from" in await _text(browser, ".readout")
    assert await browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    await browser.press("Escape", 27)
    assert "strongest" in await _text(browser, ".readout")


async def _go_by_the_address(browser):
    await _open(browser, "layers")
    assert await browser.evaluate("location.hash") == "#layers"
    await browser.evaluate("location.hash = 'inputs'")
    await _ready(browser, "inputs")


def _noise(packed, name):
    """Returns an array of the same shape, of numbers from a normal distribution, or weights made of such scores."""
    numbers = np.random.default_rng(0).standard_normal((len(packed.parts), *packed.shape), np.float32)
    if name != "weights":
        return pack_array(numbers)
    shares = np.exp(numbers)
    return pack_weights(shares / shares.sum(-1, keepdims=True))


async def _look_for_what_is_missing(browser, headless):
    await browser.command("Page.navigate", url=headless.as_uri() + "#logit_lens")
    await browser.until("!!document.querySelector('[data-view=logit_lens] .missing')")
    assert "must have a masked-LM head" in await _text(browser, ".missing")
    await browser.point("#tab-attribution", click=True)
    assert "Attributions require a head for labels, tags or answers;" in await _text(browser, ".missing")
    await _open(browser, "heads")
    assert (await _text(browser, ".readout")).startswith("Layer 0, head 0: the ")


async def _look_at_relative_positions(browser, bert):
    [row] = inspect.neurons(bert, ["a film"])
    await _open(browser, "neurons")
    await browser.until("document.querySelector('.query').textContent.includes('a')")
    cells = np.array(await _texts(browser, ".neurons tbody td")).reshape(len(row), 6)
    positions, scores = ([float(text.replace("\u2212", "-")) for text in column] for column in cells.T[3:5])
    place = row.tokens.index("a")
    expected = sum(term[0, 0, place] for term in row.positions.values())
    np.testing.assert_allclose(positions, expected, atol=0.03)
    np.testing.assert_allclose(scores, row.scores(0, 0)[place], atol=0.03)


@pytest.mark.slow
def test_a_long_text_in_a_base_model_opens_at_once(tmp_path, capsys):
    """512 tokens, 12 layers of 12 heads; in place of the arrays stands noise, which is the worst to pack."""
    shape = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 512}
    bert = with_all_heads(**shape)
    words = " ".join(np.random.default_rng(0).choice(tiny.FILL, 510))
    found = gather(bert, [words], PageOptions([name for name in VIEWS if name != "attribution"]))
    for name in ("weights", "query", "key", "among", "input_token", "input_position", "input_output"):
        found.arrays[name] = _noise(found.arrays[name], name)
    path = tmp_path / "page.html"
    path.write_text(build_html(found, "base"), encoding="utf-8")
    sizes = {name: f"{sum(map(len, each.texts)) / 1e6:.1f}" for name, each in found.arrays.items()}

    async def visit():
        async with Browser() as browser:
            await browser.command("Performance.enable", timeDomain="threadTicks")
            start = time.monotonic()
            await browser.command("Page.navigate", url=path.as_uri())
            await _ready(browser, "heads")
            wall = time.monotonic() - start
            metrics = (await browser.command("Performance.getMetrics"))["metrics"]
            unpacked = await browser.evaluate("unpacked.size")
            for name in VIEWS[1:-1]:
                await _open(browser, name)
            return wall, {each["name"]: each["value"] for each in metrics}["TaskDuration"], unpacked, browser.errors

    wall, busy, unpacked, errors = asyncio.run(visit())
    with capsys.disabled():
        print(f"\n{path.stat().st_size / 1e6:.1f} MB, {sizes}; open after {wall:.2f} s, {busy:.2f} s of its thread")
    assert path.stat().st_size < 40e6
    assert busy < 3 and unpacked == 1 and errors == []  # of the page's own thread: what else runs here is no matter
