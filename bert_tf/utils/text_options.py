"""How a text is divided into documents and sentences: the options. Imports nothing heavy, so that `--help` is quick."""

import dataclasses
import re
from functools import cached_property
from typing import ClassVar

from bert_tf.utils.settings import option

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z0-9]+)*")


@dataclasses.dataclass(frozen=True)
class TextOptions:
    """Rules for splitting text into documents and sentences.

    `document_start` is searched in each line of prose without surrounding whitespace. For a `language` that sentencex
    does not support, sentences end as in English.

    Raises:
        ValueError: `document_start` or `language` is invalid.
    """

    GROUP: ClassVar[str] = "Data"

    text_column: str = option("text", "Key of the text in the objects of .jsonl files.", essential=True)
    document_start: str | None = option(
        None,
        "Regular expression for lines of prose that start a document. Default: each file is one document.",
    )
    language: str = option("en", "Language of prose, as an ISO 639 code; decides where sentences end.")
    drop_junk_lines: bool = option(False, "Skip lines that are mostly not natural language: tables, addresses, markup.")

    def __post_init__(self):
        if not _LANGUAGE.fullmatch(self.language):
            raise ValueError(f"language must be an ISO 639 code such as en or pt-br; got {self.language!r}.")
        try:
            re.compile(self.document_start or "")
        except re.error as error:
            raise ValueError(
                f"document_start must be a regular expression; got {self.document_start!r}: {error}."
            ) from error

    @cached_property
    def starts(self) -> re.Pattern | None:
        """document_start, compiled."""
        return None if self.document_start is None else re.compile(self.document_start)
