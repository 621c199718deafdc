"""Published checkpoints by name: each makes a model's configuration, and a name in place of a path says what to do."""

import pytest

import bert_tf
from bert_tf.checkpoints import loading, releases
from bert_tf.models import family_registry
from bert_tf.models.config import config_for
from tests.conftest import ROOT


@pytest.mark.parametrize("name", releases.RELEASES)
def test_each_release_is_whole(name):
    release = releases.RELEASES[name]
    assert config_for(release.size, release.vocab_size).vocab_size == release.vocab_size
    assert bool(release.scores) == bool(release.source)
    assert name.split("/")[-1] == release.repository.split("/")[-1]
    cased = ("-cased", "Bio_ClinicalBERT", "roberta", "ModernBERT", "deberta", "xlm-v", "camembert", "gte-multilingual")
    assert release.do_lower_case != any(word in name for word in cased)
    assert releases.find_release(name) is releases.find_release(release.repository) is release


def test_the_embedding_tables_are_as_large_as_published():
    """Parameters of the encoder as the papers and model cards count them, in millions."""
    published = {"bert-base-uncased": 110, "bert-large-uncased": 340, "bert-base-multilingual-cased": 178}
    for name, millions in published.items():
        fields = family_registry.size(releases.RELEASES[name].size) | {"vocab_size": releases.RELEASES[name].vocab_size}
        width, layers = fields["hidden_size"], fields["num_hidden_layers"]
        count = (fields["vocab_size"] + 514) * width + layers * (12 * width + 13) * width + (width + 1) * width
        assert count / 1e6 == pytest.approx(millions, rel=0.02)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("bert-base-uncased", ["checkpoint: pass google-bert/bert-base-uncased@main to download it, or the path"]),
        ("allenai/scibert_scivocab_uncased", ["pass allenai/scibert_scivocab_uncased@main to download"]),
        ("uncased_L-24_H-1024_A-16", ["pass google-bert/bert-large-uncased@main to download"]),
        ("emilyalsentzer/Bio_ClinicalBERT", ["@main with `do_lower_case=false` to download"]),
        ("somebody/some-model", ["If 'somebody/some-model' is a model on", "pass somebody/some-model@main to"]),
        ("some-model", ["If 'some-model' is a model on huggingface.co, pass its full name, organization/some-model"]),
    ],
)
def test_a_name_in_place_of_a_path(name, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)  # of a local model, of which the name is wrong
    for refuse in (bert_tf.load, lambda path: loading.load_description([path])):
        with pytest.raises(ValueError) as error:
            refuse(name)
        assert all(part in str(error.value) for part in parts)


def test_a_path_that_is_no_name_gets_no_advice(tmp_path):
    with pytest.raises(ValueError, match="there is no directory, file or TF1 prefix .*none.$"):
        loading.load_description([str(tmp_path / "none")])
    assert releases.advice("./models/of/mine") == releases.advice("/models") == ""


def test_the_page_lists_them():
    page = (ROOT / "docs" / "reference" / "published_figures.md").read_text(encoding="utf-8")
    for name, release in releases.RELEASES.items():
        link = f"[{name}](https://huggingface.co/{release.repository})"
        line = next(line for line in page.splitlines() if link in line)
        assert f"| {release.size} | {release.vocab_size:,} | " in line and release.scores in line
