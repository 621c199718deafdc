"""The page of published checkpoints: which of them load, and for the others the key that says why not.

    .venv/bin/python -m tools.docs.checkpoints      # writes docs/reference/checkpoints.md

The table published_checkpoints.json states of each checkpoint what its public configuration does: `model_type`, the
class, the class of the tokenizer, and the `keys` that distinguish it, with `tokenizer_keys` of tokenizer_config.json
and the `tokenizer_json` that its tokenizer.json has. Whether it loads follows from the table of families and from the
checks of the loaders. tests/checkpoints/published_checkpoints_test.py holds each combination against Transformers.
"""

import dataclasses
import functools
import json
import pathlib
import re
import tempfile
from typing import Any

from bert_tf.models import family_registry
from bert_tf.models.config import EncoderConfig
from bert_tf.tokenization.tokenizer_config import CLASSES, check_tokenizer_config
from bert_tf.tokenization.tokenizer_json import WHOLE_FILE, read_whole, tokenizer_kind
from tools.docs.navigation import ROOT

PAGE = ROOT / "docs" / "reference" / "checkpoints.md"
TABLE = pathlib.Path(__file__).with_name("published_checkpoints.json")
SHAPE = {"vocab_size": 64, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 2,
         "intermediate_size": 16, "max_position_embeddings": 514}  # fmt: skip
# Ending of a class's name -> what is loaded besides the encoder and the tokenizer.
_HEADS = {
    "ForMaskedLM": "masked-LM head",
    "LMHead": "masked-LM head",
    "ForPreTraining": "pretraining heads",
    "ForSequenceClassification": "text classifier",
    "ForTokenClassification": "token classifier",
    "ForQuestionAnswering": "question-answering head",
    "Model": "",
}
_BY_MECAB = "BertJapaneseTokenizer"  # its test, tests/tokenization/mecab_test.py, needs MeCab's packages
_OF_REPOSITORIES = ("eurobert", "gte", "neobert", "new", "nomic_bert")
_HEAD = """# Published checkpoints

This page lists {count} published encoders, embedders and rerankers by their names on the Hugging Face Hub. {loads} of
them load [by name](../get_started/pretrained_models.md#models-by-name) or from a local directory:

```python
import bert_tf

bert = bert_tf.load("demo/weights/minilm")  # or, for example, "sentence-transformers/all-MiniLM-L6-v2"
bert.features(["A warm film."]).shape  # (1, 384)
```

- **Loads** states the head that is loaded in addition to the encoder and the tokenizer. For a checkpoint that is
  rejected, it names the key of `config.json`, `tokenizer_config.json` or `tokenizer.json`, as the error message does.
- **Case** is the number of the checkpoint's architecture, tokenizer and settings in [Tested
  combinations](#tested-combinations).

**What was tested.** For each combination that loads, Transformers 4.57 writes a small model with random weights and its
tokenizer; bert_tf loads both, and hidden states, logits and token ids agree with those of Transformers. For each
combination that is rejected, the error message for such configuration files names the key. The published files
themselves were not tested, except those of all-MiniLM-L6-v2. The table states what their configurations said when it
was compiled; a later revision may differ.
"""
_CASES = """
## Tested combinations

*Model* is a small model that Transformers 4.57 wrote, and *configuration* a directory with such configuration files.
Architectures that only exist in the code of a repository, and tokenizers that only exist as a `tokenizer.json`, are
tested with their configuration. So is BERT with `BertJapaneseTokenizer`, whose ids are compared by another test.

| Case | `model_type` | Class | Tokenizer | Settings | Tested with |
|---|---|---|---|---|---|
"""


@dataclasses.dataclass(frozen=True)
class Published:
    """A published checkpoint: a row of the table.

    Attributes:
        name: on the Hugging Face Hub.
        group: title of its section.
        model_type, kind: of its configuration; `kind` is the class of the model.
        tokenizer: the class of its tokenizer.
        keys, tokenizer_keys, tokenizer_json: what its config.json, tokenizer_config.json and tokenizer.json state.
    """

    name: str
    group: str
    model_type: str
    kind: str
    tokenizer: str
    keys: dict[str, Any]
    tokenizer_keys: dict[str, Any]
    tokenizer_json: dict[str, Any]

    @property
    def case(self) -> str:
        """What the row has in common with those that one test proves, as JSON."""
        parts = [self.model_type, self.kind, self.tokenizer, self.keys, self.tokenizer_keys, self.tokenizer_json]
        return json.dumps(parts, sort_keys=True)

    @property
    def is_written(self) -> bool:
        """Whether a test writes a model: Transformers 4.57 has its class, and a class for its tokenizer."""
        is_by_itself = self.tokenizer_json or self.tokenizer == _BY_MECAB
        return self.model_type not in _OF_REPOSITORIES and not is_by_itself

    def tokenizer_file(self) -> str:
        """Returns a tokenizer.json with these settings and one token."""
        model = {"vocab": {"<unk>": 0}, "merges": [], **self.tokenizer_json["model"]}
        return json.dumps({"version": "1.0", "added_tokens": [], **self.tokenizer_json, "model": model})


@functools.cache
def read_published() -> tuple[Published, ...]:
    """Returns the rows of the table."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    optional = ("keys", "tokenizer_keys", "tokenizer_json")
    fixed = ("name", "group", "model_type", "tokenizer")
    return tuple(
        Published(
            **{key: row[key] for key in fixed}, kind=row["class"], **{key: row.get(key, {}) for key in optional}
        )
        for row in rows
    )


def cases() -> dict[str, Published]:
    """Returns the first row of each combination of architecture, tokenizer and settings, in order."""
    found = {}
    for row in read_published():
        found.setdefault(row.case, row)
    return found


def refusal(row: Published) -> tuple[str, Any] | None:
    """Returns the key for which a checkpoint is rejected, and its value; None if it loads."""
    if row.model_type not in family_registry.FAMILIES:
        return "model_type", row.model_type
    try:
        EncoderConfig.from_dict({"model_type": row.model_type, "architectures": [row.kind], **SHAPE, **row.keys})
    except ValueError as error:
        key = re.match(r"\w+", str(error))[0]
        return key, row.keys[key]
    try:
        _check_tokenizer(row)
    except ValueError as error:
        stated = {"tokenizer_class": row.tokenizer, **row.tokenizer_keys}
        key = next((key for key in stated if re.search(rf"\b{key} must be", str(error))), None)
        return (key, stated[key]) if key else ("byte_fallback", row.tokenizer_json["model"]["byte_fallback"])
    return None


def _check_tokenizer(row):
    if row.tokenizer_json:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, WHOLE_FILE)
            path.write_text(row.tokenizer_file(), encoding="utf-8")
            read_whole(path, tokenizer_kind(path))
    family = family_registry.family(row.model_type)
    kind = next((kind for kind, classes in CLASSES.items() if row.tokenizer in classes), family.tokenizer)
    own = row.tokenizer if row.tokenizer == family.tokenizing.get("tokenizer_class") else None
    check_tokenizer_config("", {"tokenizer_class": row.tokenizer, **row.tokenizer_keys}, kind, own)


def _loads(row):
    """Returns the cell that says what loads."""
    if refused := refusal(row):
        key, value = refused
        return f"**no**: `{key}` is {_shown(value)}"
    head = next(head for ending, head in _HEADS.items() if row.kind.endswith(ending))
    return head or "encoder"


def _shown(value):
    return f"`{_written(value)}`"


def _written(value):
    return (value if isinstance(value, str) else json.dumps(value)).replace("|", "\\|")


def page() -> str:
    """Returns the page."""
    rows, numbers = read_published(), {case: n for n, case in enumerate(cases(), 1)}
    loads = sum(refusal(row) is None for row in rows)
    lines = [_HEAD.format(count=len(rows), loads=loads)]
    for group in dict.fromkeys(row.group for row in rows):
        lines += [f"## {group}", "", "| Model | Loads | Case |", "|---|---|---|"]
        lines += [
            f"| [{row.name}](https://huggingface.co/{row.name}) | {_loads(row)} | {numbers[row.case]} |"
            for row in rows
            if row.group == group
        ]
        lines.append("")
    lines.append(_CASES.strip("\n"))
    for case, row in cases().items():
        settings = {**row.keys, **row.tokenizer_keys, **row.tokenizer_json.get("model", {})}
        shown = ", ".join(f"`{key}={_written(value)}`" for key, value in settings.items())
        how = "model" if row.is_written and refusal(row) is None else "configuration"
        lines.append(f"| {numbers[case]} | {row.model_type} | {row.kind} | {row.tokenizer} | {shown} | {how} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
