"""Send prediction requests to `bert-tf serve` or TensorFlow Serving.

    bert-tf client ask --server=localhost:8500 --model_name=NAME "Fine." "Dull."

Prints one JSON object per text: {"text": ..., "label": ...,
"probabilities": {label: p}}, or whatever else the model returns. Texts are
arguments or lines of standard input. An example with several texts takes
several arguments, or tab-separated fields of a line:

    bert-tf client ask --model_name=squad "Who wrote it?" "Jane Austen did."

A multiple-choice model takes a context and its choices:

    bert-tf client ask --model_name=swag \\
        "She opens the door." "She walks in." "It is."

A reranker takes a query and its documents in the same way.

Does not require TensorFlow.
"""

import dataclasses
import re
import sys
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.cli.tls import tls_of
from bert_tf.serving.client.settings import ConnectionSettings
from bert_tf.utils.json_files import printable_json
from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class AskSettings(ConnectionSettings, UserSettings):
    """Server to query, and the texts of an example."""

    GROUP: ClassVar[str] = "Server and requests"

    inputs: Sequence[str] = option(
        [],
        "Names of the texts of an example, such as question,context: arguments come in this order, and lines are "
        "tab-separated. Default: those that the model reports.",
    )
    pair: bool = option(
        False,
        "Same as --inputs=text_a,text_b, for a model that compares two texts.",
        excludes=("choices",),
    )
    choices: bool = option(
        False,
        "Same as --inputs=context,choices, for a multiple-choice model. All arguments, or all texts of a line, are "
        "then one example: the context and its choices.",
    )


SETTINGS = AskSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True


_BATCH = 32  # examples a request
_CONTROLS = re.compile("[\x7f-\x9f]")  # what terminals obey and JSON does not escape


def main(settings: AskSettings, texts):
    """Prints a line for each example."""
    from bert_tf.serving.client.client import Client
    from bert_tf.serving.client.items import chunks, read_items, read_list_arguments, to_inputs
    from bert_tf.serving.client.requests import CHOICES, LISTS, PAIR, check_order

    names = _input_names(settings, {"pair": PAIR, "choices": CHOICES})
    try:
        with Client(settings.server, settings.model_name, settings.timeout, tls=tls_of(settings)) as client:
            if not names:
                names = client.text_inputs()
                check_order(names)
            items = read_list_arguments(texts, names) if names in LISTS else read_items(texts, names)
            for batch in chunks(items, _BATCH):
                for item, answer in zip(batch, client.ask(to_inputs(batch, names)), strict=True):
                    line = dict(zip(names, item, strict=True)) | answer
                    text = printable_json(line)
                    print(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text), flush=True)
    except BrokenPipeError:  # the reader of our lines has seen enough
        sys.stderr.close()
        sys.exit(1)


def _input_names(settings, meanings):
    """Returns the names in --inputs, or those of its aliases; () if the model determines them.

    Args:
        meanings: {flag: names}.

    Raises:
        ValueError: they contradict one another, or a name is missing or occurs twice.
    """
    names, short = tuple(settings.inputs), [flag for flag in meanings if getattr(settings, flag)]
    if short and "inputs" in settings.given and names != meanings[short[0]]:
        raise ValueError(
            f"--{short[0]} means --inputs={','.join(meanings[short[0]])} and cannot be combined with "
            f"--inputs={','.join(names)}. Remove one."
        )
    if "inputs" in settings.given and (not all(names) or not names or len(set(names)) < len(names)):
        raise ValueError(
            f"--inputs must be different names separated by commas; got {','.join(names)!r}. For a question answering "
            "model, pass question,context."
        )
    return meanings[short[0]] if short else names
