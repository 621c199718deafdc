"""Verification of a conversion: the written model is read back, and its weights and outputs are compared."""

import dataclasses
import os
from collections.abc import Mapping

import numpy as np

from bert_tf.checkpoints.loading import default_labels, load_description
from bert_tf.checkpoints.model_arrays import ModelArrays, Written
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export.conversion.model_outputs import compute_outputs
from bert_tf.export.conversion.tokenizer_samples import sample_text, tokenizer_samples
from bert_tf.tokenization.tokenizer_json import WHOLE_FILE
from bert_tf.utils.files import sha256
from bert_tf.utils.old_names import find_renamed

_TOLERANCE = 1e-5  # of outputs, as a share of the largest
_LONGEST = 64
# Fields that change no output: what training starts from and drops.
_OF_TRAINING = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")


@dataclasses.dataclass(frozen=True)
class ConversionReport:
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
        the fields of a `ConversionReport` from `matched` on that this function determines.

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
    Transformers does, and `fill-mask` with the mask token.
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


def __getattr__(name):
    return find_renamed(__name__, {"Proof": "ConversionReport"}, name)
