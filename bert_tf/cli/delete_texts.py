"""Delete texts from a search index by their ids.

    bert-tf index delete --index_dir=news.index 17 42
    bert-tf index delete --index_dir=news.index --input_file=old_ids.txt

Programs that have the index open still return the texts until they reopen it.
"""

import dataclasses
from typing import ClassVar

from absl import logging

from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class DeleteTextsSettings(UserSettings):
    """Texts to delete."""

    GROUP: ClassVar[str] = "Data"

    index_dir: str | None = option(None, "Index made with `bert-tf embed --index_dir`.", required=True)
    input_file: str | None = option(None, "Ids to delete, one per line, instead of arguments.", essential=True)


SETTINGS = DeleteTextsSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True


def main(settings: DeleteTextsSettings, ids):
    """Deletes the texts."""
    from bert_tf.inference.search import SearchIndex
    from bert_tf.utils.files import read_lines

    if bool(ids) == bool(settings.input_file):
        received = "both" if ids else "neither"
        raise ValueError(f"Pass either ids as arguments or `input_file`; got {received}.")
    if settings.input_file:
        ids = [line.rstrip("\r\n") for line in read_lines(settings.input_file)]
    index = SearchIndex(settings.index_dir)
    index.delete(ids)
    logging.info("The index %s has %d texts.", settings.index_dir, len(index))
