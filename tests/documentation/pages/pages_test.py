"""What the site adds to the pages: whole docstrings, and links that stay on it."""

import pytest

from tests.conftest import ROOT
from tools.docs import pages, tables


@pytest.mark.parametrize(
    ("page", "uri", "text", "expected"),
    [
        ("docs/guides/export.md", "guides/export.md", "[a](serving.md#versions)", "[a](serving.md#versions)"),
        ("docs/README.md", "README.md", "[a](../CONTRIBUTING.md#tests)", "[a](CONTRIBUTING.md#tests)"),
        ("docs/README.md", "README.md", "[a](../pyproject.toml), b", "a, b"),
        ("docs/README.md", "README.md", "[a\n  b](../SECURITY.md)", "[a\n  b](SECURITY.md)"),
        ("docs/tutorials/tagging.md", "tutorials/tagging.md", "[a](../guides/keras.md)", "[a](../guides/keras.md)"),
        ("CONTRIBUTING.md", "CONTRIBUTING.md", "[a](benchmarks/README.md)", "[a](benchmarks/README.md)"),
        ("CONTRIBUTING.md", "CONTRIBUTING.md", "[a](docs/guides/keras.md#levels)", "[a](guides/keras.md#levels)"),
        ("benchmarks/README.md", "benchmarks/README.md", "[a](../docs/guides/export.md)", "[a](../guides/export.md)"),
        ("docs/guides/keras.md", "guides/keras.md", "[a](https://x.y/z) ![p](picture.svg) [b](#c)", None),
        ("docs/guides/keras.md", "guides/keras.md", "[a](nowhere.md)", None),
    ],
)
def test_links_stay_on_the_site(page, uri, text, expected):
    assert pages.links_on_site(text, ROOT / page, uri) == (expected or text)


def test_docstrings_stand_below_the_table_of_their_names():
    text = tables.filled("Before\n\n| Name | |\n|---|---|\n| `bert_tf.load` | |\n| `bert_tf.sklearn` | |\n\nAfter\n")
    before, _, after = pages.with_docstrings(text).partition("\n::: bert_tf.checkpoints.loading.load\n")
    assert "| [`bert_tf.load`][bert_tf.checkpoints.loading.load] | Loads" in before
    assert "| `bert_tf.sklearn` |" in before
    assert after == '    options:\n      heading: "bert_tf.load"\n\nAfter\n'
