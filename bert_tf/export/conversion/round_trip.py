"""Verifies a conversion: reads the written model back and compares weights and outputs."""

import dataclasses
import functools
import os
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf.checkpoints.architectures import heads_in
from bert_tf.checkpoints.loading import default_labels, load_description
from bert_tf.checkpoints.model_arrays import ModelArrays, Written
from bert_tf.checkpoints.names.tf1 import GENERATOR
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead, QuestionAnsweringHead
from bert_tf.models.pretraining_heads import MaskedLMHead, NextSentenceHead, ReplacedTokenHead, build_in_cls
from bert_tf.models.recurrent import GATES, BiLSTMHead
from bert_tf.tokenization.tokenizer_json import WHOLE_FILE
from bert_tf.utils.files import sha256

# === Samples ===
# Texts with every kind of token of a tokenizer, which reveal differences between two tokenizers.


PLAIN = "Unaffable as ever, Zoë paid 3.50 € for a café crème in 東京 -- didn't she?"


def added_token_kinds(tokenizer) -> list:
    """Returns one added token for each combination of flags in the tokenizer, the first of each."""
    found = {}
    for token in tokenizer.added_tokens:
        found.setdefault((token.lstrip, token.rstrip, token.single_word, token.normalized), token)
    return list(found.values())


def sample_text(tokenizer) -> str:
    """Returns a text to run the model on: an added token of each kind, then plain words."""
    return " ".join([*(token.content for token in added_token_kinds(tokenizer)), PLAIN])


def tokenizer_samples(tokenizer) -> list[str]:
    """Returns texts to tokenize: plain words; the special tokens together; each special and added token.

    Each token appears by itself, within words, between white space, twice in a row, before a special token, and in
    lower and upper case, which makes its flags visible.
    """
    special = list(dict.fromkeys(tokenizer.special_tokens.values()))
    found = [sample_text(tokenizer), " ".join(special)]
    for content in dict.fromkeys([*special, *(token.content for token in tokenizer.added_tokens)]):
        found += [content, f"paid{content}she", f"paid  {content}\tshe", f"paid,{content}{content}"]
        found += [content + special[0], f"paid {content.lower()} she {content.upper()}s"]
    return found


# === Outputs ===
# The outputs of a model for a text: of the encoder and of every head with weights.


_POOLER = "bert/pooler/dense/kernel"
_FLOAT32 = {"dtype": "float32"}  # whatever the training precision


def compute_outputs(config: EncoderConfig, arrays: Mapping[str, np.ndarray], inputs: Mapping) -> dict[str, np.ndarray]:
    """Returns the outputs, float32: sequence_output, pooled_output if there is a pooler, each head's logits.

    Args:
        config: of the encoder.
        arrays: our path -> array; the generator of a discriminator is skipped, because it has no outputs.
        inputs: `input_ids`, `input_mask`, `segment_ids`, int32 [B, S].

    Raises:
        ValueError: a weight of the encoder or of a head is missing, superfluous, or its shape differs from the
            configuration.
    """
    arrays = {path: array for path, array in arrays.items() if not path.startswith(GENERATOR)}
    config = dataclasses.replace(config, has_pooler=_POOLER in arrays)
    encoder = Encoder(config, **_FLOAT32)
    encoder.build()
    heads = {name: _HEADS[name](config, arrays) for name in sorted(heads_in(arrays))}
    variables = [v for layer in (encoder, *(head for head, _ in heads.values())) for v in layer.variables]
    _assign(variables, arrays)
    found = encoder(inputs)
    # Heads for texts read the first position, heads for tokens all others.
    x = tf.concat([found["pooled_output"][:, tf.newaxis], found["sequence_output"]], 1)
    named = {"sequence_output": found["sequence_output"]}
    named |= {"pooled_output": found["pooled_output"]} if config.has_pooler else {}
    for name, (head, call) in heads.items():
        decodes = config.enhanced_mask_decoder and isinstance(head, MaskedLMHead)
        own = head.input_of(encoder, found, inputs) if decodes else x
        named[f"{name} logits"] = call(head, own, encoder)
    return {name: value.numpy() for name, value in named.items()}


def _assign(variables, arrays):
    here = {variable.path: tuple(variable.shape) for variable in variables}
    there = {path: array.shape for path, array in arrays.items()}
    if here != there:
        differ = [path for path in sorted(here.keys() | there.keys()) if here.get(path) != there.get(path)]
        sides = {path: (here.get(path, "none"), there.get(path, "none")) for path in differ}
        lines = [f"\n    {path}: {a} by the configuration, {b} in the weights" for path, (a, b) in sides.items()]
        raise ValueError(
            f"The weights do not match the configuration; {len(lines)} differ:{''.join(lines[:20])}"
        )
    for variable in variables:
        variable.assign(arrays[variable.path].astype(np.float32))


def _classifier(config, arrays):
    transforms = "classifier/dense/kernel" in arrays
    head = ClassificationHead.of(config, len(arrays["classifier/output_bias"]), transforms, **_FLOAT32)
    head.build((None, None, config.hidden_size))
    return head, lambda head, x, encoder: head(x)


def _masked_lm(config, arrays):
    head = build_in_cls(MaskedLMHead.of(config, **_FLOAT32), config.hidden_size)

    def call(head, x, encoder):
        positions = tf.tile(tf.range(tf.shape(x)[1])[tf.newaxis], [tf.shape(x)[0], 1])
        return head(x, encoder.embeddings.word_embeddings, positions)

    return head, call


def _replaced_tokens(config, arrays):
    head = build_in_cls(ReplacedTokenHead.of(config, **_FLOAT32), config.hidden_size)
    return head, lambda head, x, encoder: head(x)


def _next_sentence(config, arrays):
    return build_in_cls(NextSentenceHead(**_FLOAT32), config.hidden_size), lambda head, x, encoder: head(x)


def _spans(config, arrays):
    def call(head, x, encoder):
        return tf.stack([*head(x, tf.ones(tf.shape(x)[:2], tf.int32)).values()])

    return build_in_cls(QuestionAnsweringHead.of(config, **_FLOAT32), config.hidden_size), call


def _bilstm(name, config, arrays):
    """Returns the head on selected layers. The weights do not name the layers, but any will do to compare weights."""
    shares, (_, width, gates) = arrays.get(f"{name}/layer_sum/layer_weights"), arrays[f"{name}/lstm_0/kernel"].shape
    count = width // config.hidden_size if shares is None else len(shares)
    num_labels = len(arrays[f"{name}/classifier/output_bias"])
    num_layers = sum(re.fullmatch(rf"{name}/lstm_\d+/kernel", path) is not None for path in arrays)
    options = {"is_weighted": shares is not None, "num_layers": num_layers, "name": name}
    head = BiLSTMHead(num_labels, gates // GATES, **options, **_FLOAT32)
    head.build([(None, None, config.hidden_size)] * count)
    return head, lambda head, x, encoder: head([x] * count, tf.ones(tf.shape(x)[:2], tf.int32))


_HEADS = {
    "classifier": _classifier,
    "cls/predictions": _masked_lm,
    "cls/replaced_tokens": _replaced_tokens,
    "cls/seq_relationship": _next_sentence,
    "cls/squad": _spans,
    "recurrent": functools.partial(_bilstm, "recurrent"),
    "tagger": functools.partial(_bilstm, "tagger"),
}


# === Proof ===


_TOLERANCE = 1e-5  # of outputs, as a share of the largest
_LONGEST = 64
# Fields that change no output: what training starts from and drops.
_OF_TRAINING = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")


@dataclasses.dataclass(frozen=True)
class Proof:
    """Result of a conversion and of its verification.

    Attributes:
        source, target: paths of the source and the target.
        form: the format of the target.
        matched: number of weights written; each one was read back bit-identical.
        not_held: our paths of weights that the target's class does not read, and that were not written.
        left_out: left out on request: our paths, or the source's names if there are none.
        without_meaning: names in the source that are not weights.
        settings: field of the configuration -> (before, after), where they differ.
        text: the input of the compared outputs; it has an added token of each kind, if there are any.
        unknown: number of tokens of `text` that are not in the vocabulary: if most are not, the comparison is weak.
        differences: output -> the largest difference between source and target on `text`.
        hashes: file of weights -> its SHA-256.
        remarks: notes for readers of the files.
    """

    source: str
    target: str
    form: str
    matched: int
    not_held: tuple[str, ...]
    left_out: tuple[str, ...]
    without_meaning: tuple[str, ...]
    settings: Mapping[str, tuple]
    text: str
    unknown: int
    differences: Mapping[str, float]
    hashes: Mapping[str, str]
    remarks: tuple[str, ...]

    def __str__(self):
        unknown = f", {self.unknown} tokens of which are unknown" if self.unknown else ""
        lines = [
            f"Converted {self.source} to {self.target} ({self.form})",
            f"  weights     {self.matched} written, all read back bit-identical",
            _names("not read by the target's class, not written", self.not_held),
            _names("left out, as requested", self.left_out),
            _names("in the source besides the weights, not needed", self.without_meaning),
            *(f"  setting     {name}: {old!r} before, {new!r} after" for name, (old, new) in self.settings.items()),
            f"  outputs     largest differences on {self.text!r}{unknown}:",
            *(f"              {name} {difference:.3g}" for name, difference in self.differences.items()),
            *(f"  sha256      {digest}  {name}" for name, digest in self.hashes.items()),
            *(f"  note        {remark}" for remark in self.remarks),
        ]
        return "\n".join(line for line in lines if line)


def _names(words, names):
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return f"              {len(names)} {words}: {shown}" if names else ""


def prove(directory: str, model: ModelArrays, written: Written, given_up: tuple[str, ...] = ()) -> dict:
    """Reads the written model back and compares it.

    Args:
        directory: its directory.
        model: the model that was written.
        written: the writer's result.
        given_up: fields of the configuration that may change although they affect outputs.

    Returns:
        the fields of a `Proof` from `matched` on that are determined here.

    Raises:
        ValueError: the written model differs.
    """
    held = {path: array for path, array in model.arrays.items() if path not in written.not_held}
    text = sample_text(model.tokenizer)
    before = run_model(model.config, held, model.tokenizer, text)  # first: it has the clearest messages
    checkpoint, description = open_checkpoint(directory), load_description([directory])
    _check_arrays(checkpoint, held)
    if lost := [name for name in model.optimizer if name not in checkpoint.left_out]:
        raise _failure(f"the optimizer's {lost[0]} is missing")
    if "classifier/output_bias" in held and not _same_labels(model.labels, description.labels):
        raise _failure(f"the labels are {description.labels} and were {model.labels}")
    settings = _find_changes(computed_settings(model.config), computed_settings(description.config))
    computing = [name for name in settings if name not in (*_OF_TRAINING, *given_up)]
    if computing:
        raise _failure(f"{computing[0]} is {settings[computing[0]][1]!r} and was {settings[computing[0]][0]!r}")
    keeps_flags = os.path.exists(os.path.join(directory, WHOLE_FILE))  # KerasHub's presets have no place for them
    _check_tokens(model.tokenizer, description.tokenizer, keeps_flags)
    arrays = {path: checkpoint.get(path) for path in checkpoint.names}
    after = run_model(description.config, arrays, description.tokenizer, text)
    differences = _output_differences(before, after, allowed=bool(given_up))
    hashes = {name: sha256(os.path.join(directory, name)) for name in written.weights}
    unknown = int((before["input_ids"] == model.tokenizer.unk_id).sum())
    return {"matched": len(held), "not_held": written.not_held, "settings": settings, "text": text, "unknown": unknown,
            "differences": differences, "hashes": hashes, "remarks": written.remarks}  # fmt: skip


def run_model(config, arrays, tokenizer, text) -> dict[str, np.ndarray]:
    """Returns a model's outputs for a text, and the `input_ids`."""
    inputs = tokenizer([text], max_seq_length=min(config.max_length, _LONGEST))
    return {"input_ids": inputs["input_ids"].numpy(), **compute_outputs(config, arrays, inputs)}


def computed_settings(config) -> dict:
    """Returns the fields that affect the outputs, except for the pooler, which the weights determine."""
    names = [f.name for f in dataclasses.fields(config) if f.name not in ("extra", "has_pooler")]
    values = {name: getattr(config, name) for name in names}
    return values | {"embedding_size": config.embedding_width, "num_hidden_groups": config.num_blocks}


def _find_changes(before, after):
    return {name: (value, after[name]) for name, value in before.items() if value != after[name]}


def _same_labels(before, after):
    """Returns whether the labels are the same; Transformers' default names count as no labels."""
    return after == before or before is None and after == default_labels(len(after))


def _check_arrays(checkpoint, held):
    if names := checkpoint.names.keys() ^ held.keys() | set(checkpoint.unknown):
        raise _failure(f"{sorted(names)[0]} is on one side only")
    for path, array in held.items():
        there = checkpoint.stored(path)
        if there.shape != array.shape or there.tobytes() != array.astype(there.dtype).tobytes():
            raise _failure(f"{path} has different values")


def _check_tokens(tokenizer, again, keeps_flags):
    """Compares two tokenizers on texts with every kind of token of the first one.

    Special tokens in these texts are read as text and, with `keeps_flags`, also as special tokens, as
    Transformers does, and `fill_mask` with the mask token.
    """
    texts, special = tokenizer_samples(tokenizer), set(tokenizer.special_tokens.values())
    read = [[each.tokenize_with_offsets(texts) for each in (tokenizer, again)]]
    if keeps_flags:
        read += [[each.tokenize_matching(texts, each.matcher_with_special(special)) for each in (tokenizer, again)]]
    for before, after in read:
        for name, one, other in zip(("ids", "offsets", "offsets"), before, after, strict=True):
            for text, theirs, ours in zip(texts, one.to_list(), other.to_list(), strict=True):
                if theirs != ours:
                    raise _failure(f"its tokenizer produces different {name} for {text!r}")
    pairs = [*zip(tokenizer.added_tokens, again.added_tokens, strict=True)]
    if keeps_flags:
        pairs += zip(tokenizer.special_added_tokens, again.special_added_tokens, strict=True)
    for one, other in pairs:
        if one != dataclasses.replace(other, special=one.special):
            kind = "special" if one.content in special else "added"
            raise _failure(f"its {kind} token {one.content!r} has different flags")


def _output_differences(before, after, allowed):
    both = [name for name in before if name in after and name != "input_ids"]
    found = {name: float(np.abs(before[name] - after[name]).max()) for name in both}
    for name, difference in found.items():
        if not allowed and not difference <= _TOLERANCE * max(1.0, float(np.abs(before[name]).max())):
            raise _failure(f"{name} differs by {difference:.3g}")
    return found


def _failure(why):
    return ValueError(
        f"Verification failed: the converted model differs from the source: {why}. Nothing was written. "
        "Use another format, or report this as a bug."
    )
