"""The families of models: one row each says how its configuration is read, its sizes, its tokenizer, rows and names.

Code tests the numbers and settings of an `EncoderConfig`, never which family it is. A row is looked up when it is
needed, so that one which is added to FAMILIES holds everywhere at once.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

DEFAULT = "bert"  # the family of configurations without `model_type`, such as google-research/bert's


@dataclasses.dataclass(frozen=True)
class Template:
    """What stands around the texts of a row.

        one text        before  a  after
        two texts       before  a  between  b  after

    Attributes:
        before, between, after: special pieces, any number of each.
        second_segment: what `segment_ids` are for the second text and what follows; before it they are 0.
        segments: how many segments the model tells apart; None: not known, and 0: it has no table of them.
        pad, unknown, mask: the pieces for padding, for what no other piece stands for, and for a blank. Vocabularies of
            WordPiece have BERT's in every family.
    """

    before: tuple[str, ...] = ("[CLS]",)
    between: tuple[str, ...] = ("[SEP]",)
    after: tuple[str, ...] = ("[SEP]",)
    second_segment: int = 1
    segments: int | None = None
    pad: str = "[PAD]"
    unknown: str = "[UNK]"
    mask: str = "[MASK]"

    def special(self, texts: int) -> int:
        """Returns how many special pieces a row of so many texts, 1 or 2, has."""
        return len(self.pieces(texts))

    def pieces(self, texts: int) -> tuple[str, ...]:
        """Returns the special pieces of a row of so many texts, 1 or 2, in their order."""
        return (*self.before, *(self.between if texts > 1 else ()), *self.after)

    def check(self, texts: int):
        """Raises ValueError where the model has no segment for the second of two texts."""
        if texts > 1 and self.segments and self.second_segment >= self.segments:
            raise ValueError(
                f"A pair of texts must have segments that the model knows, type_vocab_size of its configuration: "
                f"{self.segments}. Received a second text, whose segment is {self.second_segment}; give one text an "
                "example, or take a model that knows pairs."
            )


@dataclasses.dataclass(frozen=True)
class Family:
    """One row of FAMILIES.

    Attributes:
        name_map: key of `checkpoints.names.NAME_MAPS`, the names of its weights in Hugging Face's files.
        tokenizer: key of `tokenization.kinds.TOKENIZERS`; a model whose directory has the files of another kind only
            is read with that one.
        tokenizing: settings of that tokenizer, as its constructor names them, where tokenizer_config.json says nothing.
        template: what stands around the texts of a row.
        keys: what its config.json calls the fields of `EncoderConfig`, where it has names of its own: theirs -> ours.
        defaults: our field -> value that its config.json means where it says nothing.
        switches: our field -> the key of its config.json that must be true, or else the field has BERT's value.
        fixed: our field, or other key -> the only value that the family has. Where positions start is here, too:
            `first_position`.
        sizes: name of a release -> its fields of `EncoderConfig`.
    """

    name_map: str
    tokenizer: str = "wordpiece"
    tokenizing: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    template: Template = Template()
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    switches: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sizes: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def tokenizing_by(self, kind: str) -> Mapping[str, Any]:
        """Returns `tokenizing` where the tokenizer is the family's own, {} where a model has another one."""
        return self.tokenizing if kind == self.tokenizer else {}

    def read(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what a configuration file says, in the names of our fields; unknown keys stay.

        Args:
            values: of the file, in the family's names or in ours.

        Raises:
            ValueError: a field has two different values, or one that the family does not have.
        """
        ours = {}
        for key, value in values.items():
            name = self.keys.get(key, key)
            if ours.setdefault(name, value) != value:
                raise ValueError(f"{name} must be said once. Received {ours[name]!r} and {value!r}, also as {key!r}.")
        for name in [name for name, switch in self.switches.items() if not ours.get(switch)]:
            ours.pop(name, None)
        for name, value in self.fixed.items():
            if ours.setdefault(name, value) != value:
                raise ValueError(
                    f"{name} must be {value!r}, or be left out, for this model_type. Received: {ours[name]!r}."
                )
        return {**self.defaults, **ours}


def _size(layers, hidden, vocab_size=30522, heads=None):
    return {
        "vocab_size": vocab_size,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads or hidden // 64,
        "intermediate_size": 4 * hidden,
    }


# Devlin et al. 2018 (base, large) and Turc et al. 2019, "Well-Read Students Learn Better", table 1 (the small ones).
_BERT = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "medium": (8, 512), "base": (12, 768)}
_BERT["large"] = (24, 1024)
# The 24 small releases: every depth with every width, 64 numbers a head, a feed-forward layer four times as wide.
GRID = [(layers, hidden) for layers in (2, 4, 6, 8, 10, 12) for hidden in (128, 256, 512, 768)]

FAMILIES: dict[str, Family] = {  # the key is Hugging Face's `model_type`
    "bert": Family(
        name_map="bert",
        sizes={f"bert-{name}": _size(*size) for name, size in _BERT.items()}
        | {f"bert-L{layers}-H{hidden}": _size(layers, hidden) for layers, hidden in GRID},
    ),
    # Sanh et al. 2019. Beside what stands here it has no dropout on the output of attention, so that training
    # differs slightly from Transformers; what it computes is the same.
    "distilbert": Family(
        name_map="distilbert",
        template=Template(second_segment=0),
        keys={
            "n_layers": "num_hidden_layers",
            "n_heads": "num_attention_heads",
            "dim": "hidden_size",
            "hidden_dim": "intermediate_size",
            "dropout": "hidden_dropout_prob",
            "attention_dropout": "attention_probs_dropout_prob",
            "activation": "hidden_act",
        },
        defaults={"num_hidden_layers": 6},
        # With sinusoidal positions the table would have to stay fixed.
        fixed={"type_vocab_size": 0, "has_pooler": False, "layer_norm_eps": 1e-12, "sinusoidal_pos_embds": False}
        | {"classifier_act": "relu"},
        sizes={"distilbert-base": _size(6, 768) | {"hidden_act": "gelu"}},
    ),
    # Clark et al. 2020, table 6 of the appendix: embeddings of the small one are half as wide.
    "electra": Family(
        name_map="electra",
        fixed={"has_pooler": False, "classifier_act": "gelu"},
        sizes={
            "electra-small": _size(12, 256) | {"embedding_size": 128, "hidden_act": "gelu"},
            "electra-base": _size(12, 768) | {"embedding_size": 768, "hidden_act": "gelu"},
            "electra-large": _size(24, 1024) | {"embedding_size": 1024, "hidden_act": "gelu"},
        },
    ),
    # Sun et al. 2019 and 2020 (ERNIE 2: a table of tasks), Sun et al. 2021 (ERNIE 3).
    "ernie": Family(name_map="ernie", switches={"task_type_vocab_size": "use_task_id"}),
    # Lan et al. 2019, table 1 and appendix A.4: the releases' second version, without dropout.
    "albert": Family(
        name_map="albert",
        tokenizer="unigram",
        template=Template(pad="<pad>", unknown="<unk>"),
        tokenizing={"do_lower_case": True, "keep_accents": False, "straight_quotes": True, "split_digit_comma": True},
        defaults={"embedding_size": 128, "num_hidden_groups": 1},
        fixed={"inner_group_num": 1},
    ),
    # Liu et al. 2019. One segment, and positions that start behind those of padding.
    "roberta": Family(
        name_map="roberta",
        tokenizer="byte_bpe",
        template=Template(
            *(("<s>",), ("</s>", "</s>"), ("</s>",)), second_segment=0, pad="<pad>", unknown="<unk>", mask="<mask>"
        ),
        defaults={"has_pooler": False},
        fixed={"first_position": 2, "classifier_act": "tanh"},
    ),
}


def family(model_type: str) -> Family:
    """Returns the row of a `model_type`.

    Raises:
        ValueError: there is none.
    """
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise ValueError(
            f"model_type must be one of {sorted(FAMILIES)}. Received: {model_type!r}; take a model of one of these "
            "families."
        )
    return FAMILIES[model_type]


def with_tokenizer(kind: str) -> Family:
    """Returns the first row with that tokenizer."""
    return next(row for row in FAMILIES.values() if row.tokenizer == kind)


def names() -> list[str]:
    """Returns every published size that `size` knows: "bert-tiny" to "bert-large", "bert-L4-H256", and so on."""
    return [name for row in FAMILIES.values() for name in row.sizes]


def size(name: str) -> dict[str, Any]:
    """Returns the fields of `EncoderConfig` of the release called `name`; `config.config_for` makes one of them.

    Raises:
        ValueError: no release has that name.
    """
    for model_type, row in FAMILIES.items():
        if name in row.sizes:
            return row.read({"model_type": model_type, **row.sizes[name]})
    raise ValueError(f"The name of a published size must be one of {names()}. Received: {name!r}.")
