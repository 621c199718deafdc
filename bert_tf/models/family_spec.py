"""What a model family is: its input template, how its configuration files are read and written, KerasHub's classes.

Nothing in this module depends on a specific family; `family_registry.FAMILIES` is the table of them.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf.utils.files import brief


@dataclasses.dataclass(frozen=True)
class InputTemplate:
    """The special tokens and segments around the texts of a sequence.

        one text        before  a  after
        two texts       before  a  between  b  after

    Attributes:
        before, between, after: special tokens, any number of each.
        second_segment: `segment_ids` of the second text and of what follows; before it they are 0.
        segments: number of segments the model distinguishes. If None, unknown; 0 means no segment table.
        pad, unknown, mask: the padding, unknown and mask tokens. The unknown token of WordPiece is always [UNK].
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
        """Returns the number of special tokens in a sequence of `texts` texts, 1 or 2."""
        return len(self.pieces(texts))

    def pieces(self, texts: int) -> tuple[str, ...]:
        """Returns the special tokens in a sequence of `texts` texts, 1 or 2, in order."""
        return (*self.before, *(self.between if texts > 1 else ()), *self.after)

    @property
    def takes_pairs(self) -> bool:
        """Whether the model has a segment for the second text of a pair, if known."""
        return not self.segments or self.second_segment < self.segments

    def room_for(self, texts: int, max_seq_length: int) -> int:
        """Returns the number of tokens that a sequence has for its text, or for its two texts together.

        Raises:
            ValueError: there is no room for the special tokens.
        """
        if max_seq_length < self.special(texts):
            raise ValueError(f"{self.needed_length(texts)}; got {max_seq_length}; raise `max_seq_length`.")
        return max_seq_length - self.special(texts)

    def needed_length(self, texts: int) -> str:
        """Returns the requirement of `room_for`, for messages."""
        return (
            f"`max_seq_length` must be at least {self.special(texts)}, to fit the special tokens "
            f"{' '.join(self.pieces(texts))}"
        )

    @property
    def tells_texts_apart(self) -> bool:
        """Whether the two texts of a pair have different segments, as far as is known."""
        return self.second_segment > 0 and (self.segments is None or self.second_segment < self.segments)

    def check(self, texts: int):
        """Raises ValueError if the model has no segment for the second text of a pair."""
        if texts > 1 and not self.takes_pairs:
            raise ValueError(
                "The model does not support text pairs: type_vocab_size of its configuration is "
                f"{self.segments}, but the second text needs segment {self.second_segment}. Pass one text per example, "
                "or use a model that supports pairs."
            )


@dataclasses.dataclass(frozen=True)
class KerasHub:
    """KerasHub's classes and settings for a family, as of version 0.32.

    Attributes:
        classes: prefix of its class names: BertBackbone.
        implied: our field -> the value that its backbone always uses; its configuration has no key for it.
        masked_lm: our field -> the value that its masked-LM head uses. If None, there is no such class.
        has_segments: whether its configuration has a key for type_vocab_size; if not, that is 0.
        keys: its configuration keys for our fields, in addition to `keras_hub_config.KERAS_HUB_KEYS` or
            overriding them.
        has_classifier: whether it has a class for text classification.
        stated: the keys of config.json that it also implies, and that an absent key would turn off.
    """

    classes: str
    implied: Mapping[str, Any]
    masked_lm: Mapping[str, Any] | None
    has_segments: bool = True
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    has_classifier: bool = True
    stated: Mapping[str, Any] = dataclasses.field(default_factory=dict)


# Fields of `EncoderConfig` that are not keys of Transformers in any family.
_OURS_ALONE = ("first_position", "classifier_act", "has_pooler", "norm_first", "maps_embeddings", "gated_mlp",
               "first_attention_norm", "head_norm", "mlp_input_bias", "rope_ntk_factor")  # fmt: skip


def _restate_nothing(values, defaults):
    return values


def _write_as_stated(values):
    return values


@dataclasses.dataclass(frozen=True)
class Family:
    """A model family: one entry of `family_registry.FAMILIES`.

    Attributes:
        weight_mapping: key of `checkpoints.names.family_mappings.WEIGHT_MAPPINGS`, the names of its weights in Hugging
            Face's files.
        tokenizer: key of `tokenization.registry.TOKENIZERS`; a model whose directory only has the files of another kind
            is read with that kind.
        tokenizing: settings of that tokenizer, named as in its constructor, that tokenizer_config.json may override.
        template: the special tokens around the texts of a sequence.
        keys: keys of its config.json that differ from the fields of `EncoderConfig`: its key -> our field.
        defaults: our field -> default value in its config.json.
        switches: our field -> the key of its config.json that must be true for the field to apply; otherwise the field
            has BERT's value.
        fixed: our field, or other key -> the only value that the family supports.
        restate: (config.json, `defaults`) -> the same with some keys replaced by others that mean the same.
        restated: the keys that it replaces.
        write_back: the inverse of `restate`: the contents of config.json with our keys -> with the family's own.
        pad_before_positions: the default padding id if its config.json has no `pad_token_id`: positions begin after
            that id (`first_position`), which is the padding's row in the position table. If None, they begin at 0,
            whatever the padding id.
        sizes: name of a release -> its fields of `EncoderConfig`.
        classes: prefix of its class names in Transformers: BertModel.
        keras_hub: KerasHub's support of it. If None, KerasHub has no class for its weights.
        masked_lm_act: activation of Transformers' masked-LM head. If None, `hidden_act`.
        sentence_objective: what its pretraining learns from pairs of texts, one of `names.SENTENCE_OBJECTIVES`.
        causal_lm: suffix of Transformers' class name for causal language models. If None, there is none, and its
            encoder is bidirectional whatever the value of `is_decoder`.
    """

    weight_mapping: str
    tokenizer: str = "wordpiece"
    tokenizing: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    template: InputTemplate = InputTemplate()
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    switches: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    restate: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]] = _restate_nothing
    restated: tuple[str, ...] = ()
    write_back: Callable[[Mapping[str, Any]], Mapping[str, Any]] = _write_as_stated
    pad_before_positions: int | None = None
    sizes: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    classes: str = "Bert"
    keras_hub: KerasHub | None = None
    masked_lm_act: str | None = None
    sentence_objective: str = "none"
    causal_lm: str | None = "ForCausalLM"

    def tokenizing_by(self, kind: str) -> Mapping[str, Any]:
        """Returns `tokenizing` if `kind` is the family's own tokenizer, otherwise {}."""
        return self.tokenizing if kind == self.tokenizer else {}

    def read(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Converts the contents of a configuration file to the names of our fields; unknown keys are kept.

        Args:
            values: contents of the file, with the family's keys or ours.

        Raises:
            ValueError: a field has two different values, or one that the family does not support.
        """
        ours = {}
        for key, value in self.restate(values, self.defaults).items():
            name = self.keys.get(key, key)
            there = ours.setdefault(name, value)
            if there is not value and there != value:  # NaN is not even equal to itself
                raise ValueError(
                    f"{name} has two different values, {brief(there)} and {brief(value)} "
                    f"(as {brief(key)}). Remove one of them."
                )
        for name in [name for name, switch in self.switches.items() if not ours.get(switch)]:
            ours.pop(name, None)
        for name, value in self.fixed.items():
            if ours.setdefault(name, value) != value:
                raise ValueError(
                    f"{self.key_in(values, name)} must be {value!r} or absent for this model_type; got "
                    f"{brief(ours[name])}."
                )
        if self.pad_before_positions is not None:
            self._place_positions(ours)
        return {**self.defaults, **ours}

    def key_in(self, values: Mapping[str, Any], name: str) -> str:
        """Returns the key of a configuration file for our field `name`: the family's, or `name` itself."""
        return next((theirs for theirs, ours in self.keys.items() if ours == name and theirs in values), name)

    def _place_positions(self, ours):
        """Sets first_position, which follows from the padding id.

        In Transformers, padding uses row pad_token_id of the position table, and tokens are counted from the next row
        on (huggingface/transformers#15292).
        """
        pad = ours.get("pad_token_id", self.pad_before_positions)
        if not isinstance(pad, int) or isinstance(pad, bool) or pad < 0:
            raise ValueError(
                "pad_token_id must be an integer of 0 or more for this model_type, because its positions begin after "
                f"it; got {brief(pad)}."
            )
        if self.fixed.get("first_position", pad + 1) != pad + 1:
            raise ValueError(
                f"pad_token_id must be {self.fixed['first_position'] - 1} or absent for this model_type; got "
                f"{pad}."
            )
        if ours.setdefault("first_position", pad + 1) != pad + 1:
            raise ValueError(
                "first_position must be pad_token_id + 1 or absent for this model_type; got "
                f"{brief(ours['first_position'])} with pad_token_id {pad}."
            )

    def write(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Converts our fields to the keys of the family's config.json; `read` converts them back.

        Args:
            values: our fields that differ from BERT's, and those that have a default in this family.
        """
        theirs = {ours: key for key, ours in self.keys.items()}
        absent = [name for name in _OURS_ALONE if values.get(name) is None]  # Transformers has no null for them
        said = {name: value for name, value in values.items() if name not in (*self._implied, *absent)}
        switches = {switch: True for name, switch in self.switches.items() if values.get(name)}
        return dict(self.write_back({theirs.get(name, name): value for name, value in said.items()} | switches))

    @property
    def stated(self) -> list[str]:
        """The fields that a configuration includes even with BERT's value, because its reader assumes another one."""
        return [*self.defaults, *([] if self.pad_before_positions is None else ["first_position"])]

    @property
    def _implied(self):
        """Returns the fields that its config.json has no key for, except those that a file may repeat."""
        placed = [] if self.pad_before_positions is None else ["first_position"]
        return [name for name in (*self.fixed, *placed) if name in _OURS_ALONE]
