"""The proof that a conversion lost nothing: what was written is read again and held against what was to be written."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping

import numpy as np

from bert_tf.checkpoints.model_files import default_labels, load_description
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.checkpoints.writers import Model, Written
from bert_tf.export.conversion import samples
from bert_tf.export.conversion.outputs import outputs

_TOLERANCE = 1e-5  # of outputs, as a share of the largest
_LONGEST = 64
# Fields that change no output: what training starts from and drops.
_OF_TRAINING = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")


@dataclasses.dataclass(frozen=True)
class Proof:
    """What a conversion did, and what it was found to be.

    Attributes:
        source, target: where from and where to.
        form: the format of the target.
        matched: how many weights were written; each is, read again, the same to the bit.
        not_held: our paths of weights that the target's class does not read, and that were not written.
        left_out: what was to stay behind: our paths, or the source's names where we know none.
        without_meaning: names in the source that are no weights.
        settings: field of the configuration -> (before, after), where they differ.
        text: what the outputs are computed from; it has an added token of each kind, if there are any.
        unknown: how many tokens of `text` are unknown to the vocabulary: if most are, the outputs say little.
        differences: output -> the largest difference before and after, on `text`.
        hashes: file of weights -> its SHA-256.
        remarks: what a reader of the files should know.
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
        unknown = f", {self.unknown} pieces of which are unknown" if self.unknown else ""
        lines = [
            f"Converted {self.source} to {self.target} ({self.form})",
            f"  weights     {self.matched} matched, each read again the same to the bit",
            _names("not read by the target's class, not written", self.not_held),
            _names("left out, as was asked", self.left_out),
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


def prove(directory: str, model: Model, written: Written, given_up: tuple[str, ...] = ()) -> dict:
    """Reads what was written and compares it.

    Args:
        directory: where it lies.
        model: what was to be written.
        written: what the writer said.
        given_up: fields of the configuration that may change what is computed.

    Returns:
        the fields of a `Proof` from `matched` on that are found here.

    Raises:
        ValueError: something is not what it was.
    """
    held = {path: array for path, array in model.arrays.items() if path not in written.not_held}
    text = samples.sentence(model.tokenizer)
    before = run(model.config, held, model.tokenizer, text)  # first: it says best what is wrong with the source
    checkpoint, description = open_checkpoint(directory), load_description([directory])
    _same_arrays(checkpoint, held)
    if lost := [name for name in model.optimizer if name not in checkpoint.left_out]:
        raise _failure(f"the optimizer's {lost[0]} is not in it")
    if "classifier/output_bias" in held and not _same_labels(model.labels, description.labels):
        raise _failure(f"the labels are {description.labels} and were {model.labels}")
    settings = _changed(settings_of(model.config), settings_of(description.config))
    computing = [name for name in settings if name not in (*_OF_TRAINING, *given_up)]
    if computing:
        raise _failure(f"{computing[0]} is {settings[computing[0]][1]!r} and was {settings[computing[0]][0]!r}")
    _same_tokens(model.tokenizer, description.tokenizer)
    arrays = {path: checkpoint.get(path) for path in checkpoint.names}
    after = run(description.config, arrays, description.tokenizer, text)
    differences = _differences(before, after, allowed=bool(given_up))
    hashes = {name: _sha256(os.path.join(directory, name)) for name in written.weights}
    unknown = int((before["input_ids"] == model.tokenizer.unk_id).sum())
    return {"matched": len(held), "not_held": written.not_held, "settings": settings, "text": text, "unknown": unknown,
            "differences": differences, "hashes": hashes, "remarks": written.remarks}  # fmt: skip


def run(config, arrays, tokenizer, text) -> dict[str, np.ndarray]:
    """Returns what a model computes from a text, and the `input_ids`."""
    inputs = tokenizer([text], max_seq_length=min(config.max_length, _LONGEST))
    return {"input_ids": inputs["input_ids"].numpy(), **outputs(config, arrays, inputs)}


def settings_of(config) -> dict:
    """Returns the fields that say what is computed; whether there is a pooler, the weights say."""
    names = [f.name for f in dataclasses.fields(config) if f.name not in ("extra", "has_pooler")]
    values = {name: getattr(config, name) for name in names}
    return values | {"embedding_size": config.embedding_width, "num_hidden_groups": config.num_blocks}


def _changed(before, after):
    return {name: (value, after[name]) for name, value in before.items() if value != after[name]}


def _same_labels(before, after):
    """Says whether the labels are the same; where there were none, Transformers' own names for them are none either."""
    return after == before or before is None and after == default_labels(len(after))


def _same_arrays(checkpoint, held):
    if names := checkpoint.names.keys() ^ held.keys() | set(checkpoint.unknown):
        raise _failure(f"{sorted(names)[0]} is on one side only")
    for path, array in held.items():
        there = checkpoint.stored(path)
        if there.shape != array.shape or there.tobytes() != array.astype(there.dtype).tobytes():
            raise _failure(f"{path} holds other numbers")


def _same_tokens(tokenizer, again):
    """Compares what two tokenizers make of texts with every kind of token that the first one has."""
    texts = samples.texts(tokenizer)
    before, after = (each.tokenize_with_offsets(texts) for each in (tokenizer, again))
    for name, one, other in zip(("ids", "offsets", "offsets"), before, after, strict=True):
        for text, theirs, ours in zip(texts, one.to_list(), other.to_list(), strict=True):
            if theirs != ours:
                raise _failure(f"its tokenizer makes other {name} of {text!r}")
    for one, other in zip(tokenizer.added_tokens, again.added_tokens, strict=True):
        if one != dataclasses.replace(other, special=one.special):
            raise _failure(f"its added token {one.content!r} has other flags")


def _differences(before, after, allowed):
    both = [name for name in before if name in after and name != "input_ids"]
    found = {name: float(np.abs(before[name] - after[name]).max()) for name in both}
    for name, difference in found.items():
        if not allowed and not difference <= _TOLERANCE * max(1.0, float(np.abs(before[name]).max())):
            raise _failure(f"{name} differs by {difference:.3g}")
    return found


def _failure(why):
    return ValueError(
        f"What was converted must be, read again, what it was before. Received a difference: {why}; nothing was kept. "
        "Take another format, or report this."
    )


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
