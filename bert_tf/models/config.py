"""The configuration of an encoder: a frozen dataclass, stored as JSON in Google's or Hugging Face's format."""

import dataclasses
import itertools
import json
import os
from collections.abc import Mapping
from typing import Any

from bert_tf.models import config_files, config_keys, family_registry
from bert_tf.models.config_key_checks import log_unknown_keys
from bert_tf.models.family_spec import InputTemplate
from bert_tf.models.lora import Lora
from bert_tf.utils.files import brief, path_text, write_text

CLASSIFIER_POOLINGS = ("cls", "mean")
POSITION_SCORES = ([], ["c2p"], ["p2c"], ["c2p", "p2c"])

_MOST = {"num_hidden_layers": 10_000}  # upper limits of fields: shared layers cannot be counted from the weights
_MOST_OF_ALL = 2**31 - 1  # an id is an int32
_BUCKETS = range(4, 512, 2)  # of a bias: two for each side at least, and not one for each of 128 distances
_FROM_ZERO = ("type_vocab_size", "first_position", "task_type_vocab_size")


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """The hyperparameters of a BERT encoder (Devlin et al. 2018, section 3; google-research/bert modeling.py).

    Attributes:
        vocab_size: rows of the word-embedding table.
        hidden_size: width H of every token vector; a multiple of num_attention_heads.
        num_hidden_layers: number of Transformer blocks L.
        num_attention_heads: number of attention heads A per block, each of width H / A.
        intermediate_size: width of the feed-forward layer, 4H in every release.
        hidden_act: "gelu" (exact, erf), "gelu_tanh" (Google's approximation), "relu", "silu" (x sigmoid(x)),
            "tanh" or "linear".
        hidden_dropout_prob: dropout on embeddings and on each sub-layer's output.
        attention_probs_dropout_prob: dropout on attention probabilities.
        max_position_embeddings: rows of the position table; `max_length` is the maximum sequence length in tokens.
        type_vocab_size: rows of the segment table; 2 in all of Google's releases, 0 for no table.
        initializer_range: standard deviation of the truncated normal initializer.
        layer_norm_eps: added to the variance in every LayerNorm.
        has_pooler: whether `pooled_output` is the tanh of a linear map of the first token; if not, it is that token
            itself. With `is_decoder`, the last token is used, which has seen the others. See `classifier_pooling`.
        first_position: the row of the position table used for the first token; earlier rows are unused. 0 means the
            usual one of the family, which is 2 in RoBERTa's.
        embedding_size: width E of the embeddings, which a linear map projects to H ("factorized", Lan et al. 2019,
            section 3.1). If None, E is H and there is no map.
        num_hidden_groups: number of blocks with their own weights, which consecutive layers share ("cross-layer
            parameter sharing", the same section). If None, as many as there are layers.
        task_type_vocab_size: rows of ERNIE's task table, the first of which is added to every token; 0 for no table.
        classifier_act: the activation of a linear map H -> H between `pooled_output` and a classifier's logits. If
            None, there is no such map.
        is_decoder: whether a token attends only to itself and earlier tokens (causal), like the left-to-right model
            that the paper compares with (section 5.1).
        tie_word_embeddings: whether the output layer of the masked-LM head is the word-embedding table, as in
            google-research/bert's run_pretraining.py; if not, it has weights of its own.
        model_type: the model family, a key of `family_registry.FAMILIES`; used by readers and writers, never by the
            encoder.
        pruned_heads: layer -> the attention heads removed from it (Michel et al. 2019), in the original numbering; the
            remaining heads keep their width. If None, all heads are present.
        lora: the adapters that are trained instead of the encoder's weights. If None, there are none.
        norm_first: whether LayerNorm comes before attention and the feed-forward layer, inside the residual, and once
            more after the last block ("pre-LN", Xiong et al. 2020, arXiv 2002.04745); training then tolerates higher
            learning rates and a shorter warmup. The embeddings keep their norm. If false, LayerNorm comes after each
            residual (post-LN), as in BERT.
        classifier_pooling: the vector that represents a text and is passed to the pooler: "cls", the first token (with
            `is_decoder`, the last), or "mean", the mean over all tokens except padding, as in ModernBERT (Warner et al.
            2024, arXiv 2412.13663), which is better if no sentence objective has trained the first token.
        maps_embeddings: whether a linear map follows the embeddings even if they have width H, as in Transformers'
            ALBERT. If the widths differ, there is always a map, and this is False.
        global_rope_theta: base of rotary positions (Su et al. 2021, arXiv 2104.09864, section 3.2.2): queries and keys
            are rotated by their position, and there is no position table. If None, positions are embeddings.
        rope_ntk_factor: f of NTK-aware scaling of rotary positions, for texts f times as long as in training: of the
            D / 2 angles of a head, the i-th, from 0, is divided by f^(2 (i + 1) / D): the last by f, the first by
            hardly more than 1 (Su 2023, kexue.fm/archives/9706, equation 6). If None, positions are not scaled.
        local_rope_theta: that of the layers with local attention. If None, it is the same.
        local_attention: width of the window of local attention (Beltagy et al. 2020, arXiv 2004.05150, section 3.1): a
            token attends to at most half as many tokens on each side. If None, to all tokens.
        global_attn_every_n_layers: n; layers 0, n, 2n, ... attend to all tokens in any case.
        gated_mlp: whether the activation in the feed-forward layer is multiplied by a second linear map of the layer's
            input (GeGLU if it is gelu; Shazeer 2020, arXiv 2002.05202).
        first_attention_norm: whether, with `norm_first`, a LayerNorm precedes the first attention, too, although it
            follows that of the embeddings.
        norm_bias, attention_bias, mlp_bias, classifier_bias: whether every LayerNorm, the linear maps of attention and
            of the feed-forward layer, and the map of the heads before their last layer have biases.
        mlp_input_bias: whether, with `mlp_bias`, the first map of the feed-forward layer has a bias like the second.
        decoder_bias: whether the masked-LM head adds a bias for each token of the vocabulary.
        head_norm: whether every head, also those on tokens and the masked-LM head, begins with the map of
            `classifier_act` and a LayerNorm.
        pos_att_type: the scores of disentangled attention (He et al. 2021, arXiv 2006.03654, section 3.1) that are
            added to those between contents: "c2p", of a query with the relative position of a key, "p2c", of a key
            with the relative position of a query, or both; (), none. The layers share one table of relative positions.
        position_buckets: number of buckets on each side for relative positions; those of distances beyond half as many
            grow logarithmically. If None, each distance up to max_relative_positions has its own.
        max_relative_positions: the largest distance that is distinguished. If None, max_position_embeddings.
        position_biased_input: whether position embeddings are added to the input; if not, there is no position table.
        enhanced_mask_decoder: whether the masked-LM head adds a table of absolute positions, and reads what
            `Encoder.decoded` makes of these and of the encoder's outputs (He et al. 2021, arXiv 2006.03654, section
            3.2). Requires `pos_att_type`, and that `position_biased_input` is false: the encoder then knows only
            relative positions.
        replaced_token_context: whether the head for replaced tokens begins with the sum of each token's vector and the
            first one's, and a LayerNorm, as in DeBERTa's version 3 (microsoft/DeBERTa,
            replaced_token_detection_model.py).
        conv_kernel_size: number of tokens, odd, that a convolution of the embeddings sees; its result is added to the
            output of the first layer (`TokenConvolution`). If None, there is none.
        conv_act: its activation.
        relative_attention_num_buckets: number of buckets of relative positions, even, half of them for keys after the
            query; a bias for each bucket and head, which the layers share, is added to the attention scores (T5,
            Raffel et al. 2020, arXiv 1910.10683, section 2.1; MPNet, Song et al. 2020). If None, there is none.
        extra: unknown keys, kept unchanged; also the fields from has_pooler on that the file contains although they
            have BERT's values, so that it is written back unchanged.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu_tanh"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    # Early bert_config.json files lack the fields from here on; see _BERT_VALUES.
    has_pooler: bool = True
    first_position: int = 0
    embedding_size: int | None = None
    num_hidden_groups: int | None = None
    task_type_vocab_size: int = 0
    classifier_act: str | None = None
    is_decoder: bool = False
    tie_word_embeddings: bool = True
    model_type: str = family_registry.DEFAULT
    pruned_heads: Mapping[int, tuple[int, ...]] | None = None
    lora: Lora | None = None
    norm_first: bool = False
    classifier_pooling: str = "cls"
    maps_embeddings: bool = False
    global_rope_theta: float | None = None
    rope_ntk_factor: float | None = None
    local_rope_theta: float | None = None
    local_attention: int | None = None
    global_attn_every_n_layers: int = 1
    gated_mlp: bool = False
    first_attention_norm: bool = True
    norm_bias: bool = True
    attention_bias: bool = True
    mlp_bias: bool = True
    mlp_input_bias: bool = True
    classifier_bias: bool = True
    decoder_bias: bool = True
    head_norm: bool = False
    pos_att_type: tuple[str, ...] = ()
    position_buckets: int | None = None
    max_relative_positions: int | None = None
    position_biased_input: bool = True
    enhanced_mask_decoder: bool = False
    replaced_token_context: bool = False
    conv_kernel_size: int | None = None
    conv_act: str = "tanh"
    relative_attention_num_buckets: int | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        size = self.vocab_size
        if isinstance(size, str | os.PathLike) and not os.fspath(size).isdigit():
            raise ValueError(
                f"vocab_size must be a positive integer; got {os.fspath(size)!r}. If this is a path, pass it to "
                "EncoderConfig.load."
            )
        if isinstance(self.pos_att_type, list):  # of JSON
            object.__setattr__(self, "pos_att_type", tuple(self.pos_att_type))
        for field in dataclasses.fields(self):
            _check_field(field, getattr(self, field.name))
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size must be a multiple of num_attention_heads; got hidden_size={self.hidden_size}, "
                f"num_attention_heads={self.num_attention_heads}."
            )
        row = family_registry.family(self.model_type)
        if not self.first_position and row.pad_before_positions is not None:
            object.__setattr__(self, "first_position", row.pad_before_positions + 1)
        if self.first_position >= self.max_position_embeddings:
            raise ValueError(
                f"first_position must be below max_position_embeddings; got {self.first_position} and "
                f"{self.max_position_embeddings}."
            )
        if self.num_blocks > self.num_hidden_layers:
            raise ValueError(
                f"num_hidden_groups must be at most num_hidden_layers; got {self.num_hidden_groups} and "
                f"{self.num_hidden_layers}."
            )
        _check_layers(self)
        if self.embedding_width != self.hidden_size:  # a map exists anyway; False keeps equal configurations equal
            object.__setattr__(self, "maps_embeddings", False)
        object.__setattr__(self, "extra", _extra_as_read(self))
        object.__setattr__(self, "lora", Lora.of(self.lora))
        if self.pruned_heads is not None:
            object.__setattr__(self, "pruned_heads", _checked_heads(self, self.pruned_heads))

    def heads_of(self, layer: int) -> int:
        """Returns the number of attention heads of a layer."""
        return self.num_attention_heads - len((self.pruned_heads or {}).get(layer, ()))

    def is_local(self, layer: int) -> bool:
        """Returns whether a layer, from 0, has local attention."""
        return self.local_attention is not None and layer % self.global_attn_every_n_layers > 0

    @property
    def max_length(self) -> int:
        """The maximum sequence length in tokens."""
        return self.max_position_embeddings - self.first_position

    @property
    def has_position_table(self) -> bool:
        """Whether position embeddings are added to the input."""
        return self.position_biased_input and self.global_rope_theta is None

    @property
    def most_relative_positions(self) -> int:
        """The largest distance that is distinguished: `max_relative_positions`, or `max_position_embeddings`."""
        return self.max_relative_positions or self.max_position_embeddings

    @property
    def relative_span(self) -> int:
        """The number of relative positions on each side: `position_buckets`, or one per distance."""
        return self.position_buckets or self.most_relative_positions

    @property
    def embedding_width(self) -> int:
        """The width of the embeddings: `embedding_size`, or H."""
        return self.embedding_size or self.hidden_size

    @property
    def has_embedding_map(self) -> bool:
        """Whether a linear map projects the embeddings to the width of the blocks."""
        return self.maps_embeddings or self.embedding_width != self.hidden_size

    @property
    def num_blocks(self) -> int:
        """The number of blocks with their own weights: the number of layers, unless layers share blocks."""
        return self.num_hidden_groups or self.num_hidden_layers

    def to_dict(self) -> dict[str, Any]:
        """Returns a flat dict, including unknown keys, from which `from_dict` restores an equal configuration.

        A field that differs from the family's fixed value is not restored. `save` rejects it. `bert_tf.save` does not,
        because it also writes the weights, from which `bert_tf.load` detects whether an ELECTRA has a pooler, as
        KerasHub's have.

        Fields that early bert_config.json files lack are only included if they differ from BERT's, so that files stay
        unchanged.
        """
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "extra"}
        values["lora"] = self.lora and self.lora.to_dict()
        if self.pruned_heads is not None:
            values["pruned_heads"] = {str(layer): list(heads) for layer, heads in self.pruned_heads.items()}
        stated = family_registry.family(self.model_type).stated
        usual = [name for name, value in _BERT_VALUES.items() if values[name] == value and name not in stated]
        values = {name: value for name, value in values.items() if name not in usual}
        return {**_keys_of_family(self), **self.extra, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EncoderConfig":
        """Reads bert_config.json, Hugging Face's config.json or the output of `to_dict`.

        Raises:
            ValueError: a key is missing, has the wrong type or an unsupported value, or its `model_type` is not in
                `family_registry.FAMILIES`.
        """
        if not isinstance(values, Mapping):
            raise ValueError(
                f"A configuration must be a dictionary; got an object of class {type(values).__name__}. "
                "EncoderConfig.load(path) reads one from a file or a model's directory."
            )
        values = config_keys.translate(values)
        if "vocab_size" not in values:
            raise ValueError(f"The BERT configuration lacks vocab_size. It has the keys {brief(sorted(values))}.")
        known = {f.name for f in dataclasses.fields(cls)} - {"extra"}
        extra = {k: v for k, v in values.items() if k not in known or (k in _BERT_VALUES and v == _BERT_VALUES[k])}
        return cls(**{k: v for k, v in values.items() if k in known}, extra=extra)

    def save(self, path: str | os.PathLike) -> None:
        """Writes JSON to `path`.

        Raises:
            ValueError: a field differs from what the family fixes, so `load` could not restore it.
        """
        _check_fixed(self)
        write_text(path, json.dumps(self.to_dict(), indent=2) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "EncoderConfig":
        """Reads the file `path`, or bert_config.json or config.json in the directory `path`."""
        path = config_files.find_config_file(path_text(path))
        values = config_files.read_config_file(path)
        try:
            config = cls.from_dict(values)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        row = family_registry.family(config.model_type)
        fields = {f.name for f in dataclasses.fields(cls)}
        known = fields.union(row.keys, row.switches.values(), row.fixed, row.restated)
        log_unknown_keys(path, values, known)
        return config


# The fields that early bert_config.json files lack -> BERT's values, with which they are not written.
_BERT_VALUES = {
    field.name: field.default
    for field in itertools.dropwhile(lambda field: field.name != "has_pooler", dataclasses.fields(EncoderConfig))
    if field.name != "extra"
}


def config_for(name: str, vocab_size: int | None = None) -> EncoderConfig:
    """Returns the configuration of a published model size, one of `family_registry.published_sizes()`.

    Args:
        name: such as "bert-base".
        vocab_size: vocabulary size. If None, that of the release; for Google's, that of the uncased vocabulary.

    Raises:
        ValueError: no release has that name.
    """
    fields = family_registry.size(name) | ({} if vocab_size is None else {"vocab_size": vocab_size})
    known = {f.name for f in dataclasses.fields(EncoderConfig)}
    extra = {name: value for name, value in fields.items() if name not in known}
    return EncoderConfig(**{name: value for name, value in fields.items() if name in known}, extra=extra)


def template_for(config: EncoderConfig) -> InputTemplate:
    """Returns the model's input template: the special tokens around its texts."""
    template = family_registry.family(config.model_type).template
    return dataclasses.replace(template, segments=config.type_vocab_size)


def _keys_of_family(config):
    """Returns the keys that a file of the family has in addition to the fields of a configuration."""
    row, known = family_registry.family(config.model_type), config.__dataclass_fields__
    keys = {name: value for name, value in row.fixed.items() if name not in known}
    if row.pad_before_positions not in (None, config.first_position - 1):
        keys["pad_token_id"] = config.first_position - 1  # which says where positions begin
    return keys


def _extra_as_read(config):
    """Returns `extra` as `from_dict` makes it of `to_dict`, so that a configuration is equal to the one read again."""
    row, implied = family_registry.family(config.model_type), _keys_of_family(config)  # which `to_dict` adds
    extra = {}
    for key, value in config.extra.items():
        is_usual = key in _BERT_VALUES and getattr(config, key) == _BERT_VALUES[key] and key not in row.stated
        if (key, value) not in implied.items() and (key not in _BERT_VALUES or is_usual):
            extra[key] = value
    for name, switch in row.switches.items():  # or `from_dict` would leave the field out
        extra |= {switch: True} if getattr(config, name) != _BERT_VALUES[name] else {}
    if config.is_decoder and row.causal_lm is None:  # no longer Transformers' model, whose file `from_dict` refuses
        extra = {key: value for key, value in extra.items() if key not in config_files.OF_TRANSFORMERS}
    return extra


def _check_field(field, value):
    """Raises ValueError, naming the field and the valid values, for a bad value."""
    if field.name in ("extra", "lora", "pruned_heads"):
        return
    if field.default is None and value is None:
        return
    if field.name in config_keys.ACTIVATION_FIELDS:
        good, must = value in config_keys.ACTIVATIONS, f"one of {', '.join(config_keys.ACTIVATIONS)}"
    elif field.name == "classifier_pooling":
        good, must = value in CLASSIFIER_POOLINGS, " or ".join(CLASSIFIER_POOLINGS)
    elif field.name == "pos_att_type":
        good = isinstance(value, tuple) and sorted(map(str, value)) in POSITION_SCORES
        must = f"one of {', '.join(map(json.dumps, POSITION_SCORES))}"
    elif field.name == "model_type":
        good, must = value in family_registry.FAMILIES, f"one of {', '.join(sorted(family_registry.FAMILIES))}"
    elif field.type in (bool, "bool"):
        good, must = isinstance(value, bool), "true or false"
    elif field.name in _FROM_ZERO:
        good, must = isinstance(value, int) and not isinstance(value, bool) and value >= 0, "an integer of 0 or more"
    elif field.type in (int, "int") or field.type in (int | None, "int | None"):
        good, must = isinstance(value, int) and not isinstance(value, bool) and value > 0, "a positive integer"
    elif field.name.endswith("_prob"):
        good, must = isinstance(value, (int, float)) and 0 <= value < 1, "a number from 0 to below 1"
    else:
        good, must = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0, "a positive number"
    if not good:
        raise ValueError(f"{field.name} must be {must}; got {brief(value)}.")
    most = _MOST.get(field.name, _MOST_OF_ALL)
    if not isinstance(value, (str, tuple)) and value > most:
        raise ValueError(f"{field.name} must be at most {most:,}; got {brief(value)}.")


def _check_layers(c):
    """Raises ValueError if settings of the layers cannot be combined."""
    if c.global_rope_theta is not None:
        width = c.hidden_size // c.num_attention_heads
        _require(width % 2 == 0, "global_rope_theta", "attention heads of even width", f"heads of width {width}")
        _require(not c.first_position, "global_rope_theta", "positions from 0", f"first_position={c.first_position}")
    else:
        for name in ("local_rope_theta", "rope_ntk_factor"):
            _require(getattr(c, name) is None, name, "global_rope_theta", "none")
    if c.local_attention is not None:
        even = c.local_attention % 2 == 0
        _require(even, "local_attention", "an even width, with as many tokens on each side", c.local_attention)
        _require(c.num_blocks == c.num_hidden_layers, "local_attention", "layers with their own weights",
                 f"num_hidden_groups={c.num_hidden_groups}")  # fmt: skip
    else:
        none = c.local_rope_theta is None and c.global_attn_every_n_layers == 1
        _require(none, "local_rope_theta or global_attn_every_n_layers", "local_attention", "none")
    if not c.first_attention_norm:
        _require(c.norm_first, "first_attention_norm=False", "norm_first", "norm_first=False")
        _require(c.num_blocks == c.num_hidden_layers, "first_attention_norm=False", "layers with their own weights",
                 f"num_hidden_groups={c.num_hidden_groups}")  # fmt: skip
    _require(not c.head_norm or c.classifier_act, "head_norm", "classifier_act", "none")
    if c.conv_kernel_size is not None:
        if not c.conv_kernel_size % 2:
            raise ValueError(f"conv_kernel_size must be odd; got {c.conv_kernel_size}.")
        _require(not c.is_decoder, "conv_kernel_size", "is_decoder=False", "true")
    _check_positions(c)


def _check_positions(c):
    """Raises ValueError if settings of relative positions, and of none in the input, cannot be combined."""
    if not c.position_biased_input:
        _require(c.global_rope_theta is None, "position_biased_input=False", "no global_rope_theta, which has no "
                 "position table either", c.global_rope_theta)  # fmt: skip
        _require(not c.first_position, "position_biased_input=False", "positions from 0",
                 f"first_position={c.first_position}")  # fmt: skip
    if c.enhanced_mask_decoder:
        _require(not c.position_biased_input, "enhanced_mask_decoder", "position_biased_input=False", "true")
        _require(c.pos_att_type, "enhanced_mask_decoder", "pos_att_type", "none")
        for name in ("norm_first", "is_decoder"):
            _require(not getattr(c, name), "enhanced_mask_decoder", f"{name}=False", "true")
    if c.relative_attention_num_buckets is not None:
        _require(c.relative_attention_num_buckets in _BUCKETS, "relative_attention_num_buckets",
                 f"an even number from {_BUCKETS[0]} to {_BUCKETS[-1]}", c.relative_attention_num_buckets)  # fmt: skip
        _require(c.local_attention is None, "relative_attention_num_buckets", "no local_attention", c.local_attention)
        _require(not c.pos_att_type, "relative_attention_num_buckets", "no pos_att_type", c.pos_att_type)
    if not c.pos_att_type:
        for name in ("position_buckets", "max_relative_positions"):
            _require(getattr(c, name) is None, name, "pos_att_type", "none")
        return
    for name in ("global_rope_theta", "local_attention"):
        _require(getattr(c, name) is None, "pos_att_type", f"no {name}", getattr(c, name))
    if c.position_buckets is not None:
        most = c.most_relative_positions
        good = c.position_buckets > 1 and c.position_buckets // 2 < most - 1
        must = f"at least 2, and less than twice the largest distance, {most - 1}"
        _require(good, "position_buckets", must, c.position_buckets)


def _check_fixed(config):
    """Raises ValueError, naming the fields, if any differ from the family's fixed values, which `load` always uses."""
    row, known = family_registry.family(config.model_type), config.__dataclass_fields__
    fixed = {name: value for name, value in row.fixed.items() if name in known}
    read = dataclasses.replace(config, **fixed)  # as `from_dict` makes it, with `maps_embeddings` as it is kept
    wrong = [name for name in fixed if getattr(config, name) != getattr(read, name)]
    if wrong:
        must, received = (", ".join(f"{name}={getattr(c, name)!r}" for name in wrong) for c in (read, config))
        raise ValueError(
            f"A configuration with model_type={config.model_type!r} must have {must} to be saved, because files with "
            f"this type are always loaded with it; got {received}; set {must}."
        )


def _require(good, setting, must, received):
    if not good:
        raise ValueError(f"{setting} requires {must}; got {received}.")


def _checked_heads(config, given):
    """Normalizes pruned heads to {layer: heads, ascending}; in JSON, the layers are strings."""
    try:
        pruned = {int(layer): tuple(sorted({int(head) for head in heads})) for layer, heads in given.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"pruned_heads must map layers to lists of heads; got {given!r}.") from error
    A, L = config.num_attention_heads, config.num_hidden_layers
    known = all(0 <= layer < L and all(0 <= head < A for head in heads) for layer, heads in pruned.items())
    if not known or any(len(heads) >= A for heads in pruned.values()):
        raise ValueError(
            f"pruned_heads must map layers from 0 to {L - 1} to heads from 0 to {A - 1}, and not to all of them; "
            f"got {given!r}."
        )
    if pruned and config.num_blocks < L:
        raise ValueError(
            "pruned_heads requires layers with their own weights; got "
            f"{given!r} for a model whose {L} layers share {config.num_blocks} blocks."
        )
    return dict(sorted(pruned.items()))
