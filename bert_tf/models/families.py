"""The families of models: one row each says how its configuration is read, its sizes, its tokenizer, rows and names.

Code tests the numbers and settings of an `EncoderConfig`, never which family it is. A row is looked up when it is
needed, so that one which is added to FAMILIES holds everywhere at once.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_tf.models import sizes
from bert_tf.utils.files import brief

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

    @property
    def takes_pairs(self) -> bool:
        """Whether the model has a segment for the second of two texts, as far as that is known."""
        return not self.segments or self.second_segment < self.segments

    def check(self, texts: int):
        """Raises ValueError where the model has no segment for the second of two texts."""
        if texts > 1 and not self.takes_pairs:
            raise ValueError(
                f"A pair of texts must have segments that the model knows, type_vocab_size of its configuration: "
                f"{self.segments}. Received a second text, whose segment is {self.second_segment}; give one text an "
                "example, or take a model that knows pairs."
            )


@dataclasses.dataclass(frozen=True)
class KerasHub:
    """What KerasHub has of a family, read from its source, version 0.32.

    Attributes:
        classes: how the names of its classes begin: BertBackbone.
        module: of its models: keras_hub.src.models.bert.
        implied: our field -> what its backbone computes with, whatever the configuration; it has no key for that.
        has_segments: its configuration has a key for type_vocab_size, else it is in `implied`.
    """

    classes: str
    module: str
    implied: Mapping[str, Any]
    has_segments: bool = True


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
        fixed: our field, or other key -> the only value that the family has.
        pad_before_positions: the padding's id where its config.json gives no `pad_token_id`: positions begin behind
            that id (`first_position`), which is the row of the position table that padding has. None: they begin at 0,
            whatever the padding's id is.
        sizes: name of a release -> its fields of `EncoderConfig`.
        classes: how the names of its classes begin in Transformers: BertModel.
        keras_hub: what KerasHub has of it; None: nothing that holds its weights.
        masked_lm_act: what Transformers' masked-LM head computes with, whatever `hidden_act` says; None: with that.
        causal_lm: how the name of Transformers' class of left-to-right models ends; None: it has none, and its encoder
            attends both ways whatever `is_decoder` says.
    """

    name_map: str
    tokenizer: str = "wordpiece"
    tokenizing: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    template: Template = Template()
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    switches: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pad_before_positions: int | None = None
    sizes: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    classes: str = "Bert"
    keras_hub: KerasHub | None = None
    masked_lm_act: str | None = None
    causal_lm: str | None = "ForCausalLM"

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
            there = ours.setdefault(name, value)
            if there is not value and there != value:  # NaN is not even equal to itself
                raise ValueError(
                    f"{name} must be said once. Received {brief(there)} and {brief(value)}, "
                    f"also as {brief(key)}."
                )
        for name in [name for name, switch in self.switches.items() if not ours.get(switch)]:
            ours.pop(name, None)
        for name, value in self.fixed.items():
            if ours.setdefault(name, value) != value:
                raise ValueError(
                    f"{name} must be {value!r}, or be left out, for this model_type. Received: {brief(ours[name])}."
                )
        if self.pad_before_positions is not None:
            self._place_positions(ours)
        return {**self.defaults, **ours}

    def _place_positions(self, ours):
        """Sets first_position, which follows from the padding's id.

        In Transformers the padding's row of the position table is pad_token_id, and tokens are counted from the next
        one on (huggingface/transformers#15292).
        """
        pad = ours.get("pad_token_id", self.pad_before_positions)
        if not isinstance(pad, int) or isinstance(pad, bool) or pad < 0:
            raise ValueError(
                "pad_token_id must be an integer from 0 up for this model_type, whose positions begin behind it. "
                f"Received: {brief(pad)}."
            )
        if ours.setdefault("first_position", pad + 1) != pad + 1:
            raise ValueError(
                "first_position must be pad_token_id + 1, or be left out, for this model_type. Received: "
                f"{brief(ours['first_position'])} with pad_token_id {pad}."
            )

    def write(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns our fields and other keys in the names of the family's config.json; `read` of it gives them back.

        Args:
            values: each of our fields that is not BERT's, and those that have a default here.
        """
        theirs = {ours: key for key, ours in self.keys.items()}
        said = {name: value for name, value in values.items() if name not in self._implied}
        switches = {switch: True for name, switch in self.switches.items() if values.get(name)}
        return {theirs.get(name, name): value for name, value in said.items()} | switches

    @property
    def _implied(self):
        """Fields that its config.json has no key for, without those that a file may repeat."""
        placed = [] if self.pad_before_positions is None else ["first_position"]
        return [name for name in (*self.fixed, *placed) if name in _OURS_ALONE]


# Fields of `EncoderConfig` that are no keys of Transformers' in any family.
_OURS_ALONE = ("first_position", "classifier_act", "has_pooler", "norm_first", "maps_embeddings")


# Liu et al. 2019. One segment, and positions that start behind those of padding.
_ROBERTA = Family(
    name_map="roberta",
    classes="Roberta",
    masked_lm_act="gelu",
    tokenizer="byte_bpe",
    template=Template(
        *(("<s>",), ("</s>", "</s>"), ("</s>",)), second_segment=0, pad="<pad>", unknown="<unk>", mask="<mask>"
    ),
    defaults={"has_pooler": False},
    fixed={"classifier_act": "tanh"},
    pad_before_positions=1,
    sizes=sizes.ROBERTA,
)

FAMILIES: dict[str, Family] = {  # the key is Hugging Face's `model_type`
    "bert": Family(
        name_map="bert",
        causal_lm="LMHeadModel",
        keras_hub=KerasHub("Bert", "bert", {"hidden_act": "gelu_tanh", "layer_norm_eps": 1e-12}),
        sizes=sizes.BERT,
    ),
    # Sanh et al. 2019. Beside what stands here it has no dropout on the output of attention, so that training
    # differs slightly from Transformers; what it computes is the same.
    "distilbert": Family(
        name_map="distilbert",
        classes="DistilBert",
        causal_lm=None,
        keras_hub=KerasHub("DistilBert", "distil_bert", {"hidden_act": "gelu", "layer_norm_eps": 1e-12}, False),
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
        sizes=sizes.DISTILBERT,
    ),
    # Clark et al. 2020.
    "electra": Family(
        name_map="electra",
        classes="Electra",
        masked_lm_act="gelu",
        defaults={"embedding_size": 128},
        fixed={"has_pooler": False, "classifier_act": "gelu"},
        sizes=sizes.ELECTRA,
    ),
    # Sun et al. 2019 and 2020 (ERNIE 2: a table of tasks), Sun et al. 2021 (ERNIE 3).
    "ernie": Family(
        name_map="ernie", classes="Ernie", switches={"task_type_vocab_size": "use_task_id"}, sizes=sizes.ERNIE
    ),
    # Lan et al. 2019, table 1 and appendix A.4: the releases' second version, without dropout.
    "albert": Family(
        name_map="albert",
        classes="Albert",
        causal_lm=None,
        tokenizer="unigram",
        template=Template(pad="<pad>", unknown="<unk>"),
        tokenizing={"do_lower_case": True, "keep_accents": False, "straight_quotes": True, "split_digit_comma": True},
        defaults={"embedding_size": 128, "num_hidden_groups": 1},
        fixed={"inner_group_num": 1, "maps_embeddings": True},
        sizes=sizes.ALBERT,
    ),
    "roberta": _ROBERTA,
    # Wettig et al. 2022, "Should You Mask 15% in Masked Language Modeling?": RoBERTa with its norms first.
    "roberta-prelayernorm": dataclasses.replace(
        _ROBERTA,
        name_map="roberta-prelayernorm",
        classes="RobertaPreLayerNorm",
        fixed={**_ROBERTA.fixed, "norm_first": True},
        sizes={},
    ),
    # Conneau et al. 2019: RoBERTa in a hundred languages; its pieces are in the places that fairseq gave them.
    "xlm-roberta": dataclasses.replace(
        _ROBERTA,
        classes="XLMRoberta",
        tokenizer="unigram",
        tokenizing={"front": ("<s>", "<pad>", "</s>", "<unk>"), "behind": ("<mask>",)}
        | {"tokenizer_class": "XLMRobertaTokenizer"},
        sizes=sizes.XLM_ROBERTA,
    ),
}


def family(model_type: str) -> Family:
    """Returns the row of a `model_type`.

    Raises:
        ValueError: there is none.
    """
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise ValueError(
            f"model_type must be one of {sorted(FAMILIES)}. Received: {brief(model_type)}; take a model of one of "
            "these families."
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
