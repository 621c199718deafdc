"""Edit a trained model: prune, merge adapters, average, resize.

    bert-tf model edit --model=demo/weights/minilm --output_dir=long \\
        --max_position_embeddings=1024
    bert-tf model edit --model=demo/weights/minilm --output_dir=small \\
        --layers=0,2,4
    bert-tf model edit --model=demo/weights/minilm --output_dir=lean \\
        --prune_heads="0:1"
    bert-tf model edit --model=run1 --average=run2,run3 --output_dir=mean
    bert-tf model edit --model=demo/weights/minilm --adapter=adapter \\
        --output_dir=merged

Nothing is trained. Several edits in one command are applied in this order:
--average, --adapter, --prune_heads, --layers, --max_position_embeddings.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.utils.files import check_free
from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class EditModelSettings(UserSettings):
    """Model to edit, and the edits."""

    GROUP: ClassVar[str] = "Model"

    model: str | None = option(
        None,
        "Model to edit: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 checkpoint (its "
        "directory or prefix).",
        required=True, essential=True, reads_model=True,
    )
    output_dir: str | None = option(
        None,
        "Directory of the new model; it must not exist yet, or be empty.",
        required=True, group="Output", essential=True,
    )
    average: Sequence[str] = option(
        [], "Models to average with --model; they must have its shape and vocabulary.", reads_model=True
    )
    adapter: str | None = option(
        None,
        "Directory of LoRA adapters to merge: adapter/ in the --output_dir of a run with --lora_rank, or one of "
        "PEFT's.",
    )
    prune_heads: str | None = option(
        None,
        "Attention heads to remove: layer:head,head;layer:head, such as 0:1,3;2:0. Numbers are those of --model and "
        "start from 0.",
    )
    layers: Sequence[str] = option([], "Layers to keep, all others being removed, such as 0,2,4; the lowest is 0.")
    max_position_embeddings: int | None = option(
        None,
        "Number of rows of the position table: additional rows are copies of the old ones; a smaller value keeps "
        "the first rows.",
        low=1, high=2**20,
    )
    do_lower_case: bool | None = option(None, "Lowercase the text. Default: the checkpoint's setting, otherwise true.")


SETTINGS = EditModelSettings
FLAGS = flags_of(SETTINGS)
_OPERATIONS = ("average", "adapter", "prune_heads", "layers", "max_position_embeddings")


def main(settings: EditModelSettings):
    """Writes the new model, and prints what changed."""
    from bert_tf.checkpoints.model_directory import describe_changes, read_model_directory, write_edited_model

    if not any(getattr(settings, name) for name in _OPERATIONS):
        wanted = ", ".join(f"--{name}" for name in _OPERATIONS)
        raise ValueError(f"Nothing to do: pass at least one of {wanted}.")
    check_free(settings.output_dir)
    heads = read_heads(settings.prune_heads) if settings.prune_heads else None
    layers = [_number(text, "layers", settings.layers) for text in settings.layers]
    before = read_model_directory(settings.model, settings.do_lower_case)
    after = _operate(settings, before, heads, layers)
    write_edited_model(after, settings.output_dir)
    print(describe_changes(before, after))
    logging.info("Wrote %s.", settings.output_dir)


def _operate(settings, model, heads, layers):
    """Returns the model after all that the flags ask for."""
    from bert_tf.checkpoints import adapters, edit_model
    from bert_tf.checkpoints.model_directory import check_alike, read_model_directory

    if settings.average:
        others = [read_model_directory(path, settings.do_lower_case) for path in settings.average]
        for other in others:
            check_alike(model, other)
        model = dataclasses.replace(model, arrays=edit_model.average([m.arrays for m in (model, *others)]))
    if settings.adapter:
        model = adapters.merge_adapters(model, settings.adapter)
    for operate, argument in (
        (edit_model.prune_heads, heads),
        (edit_model.keep_layers, layers),
        (edit_model.resize_positions, settings.max_position_embeddings),
    ):
        if argument:
            arrays, config = operate(model.arrays, model.config, argument)
            model = dataclasses.replace(model, arrays=arrays, config=config)
    return model


def read_heads(text: str) -> dict[int, list[int]]:
    """Returns layer -> heads of a text such as "0:1,3;2:0".

    Raises:
        ValueError: it is no such text, or names a layer twice.
    """
    heads = {}
    for part in text.split(";"):
        layer, colon, numbers = part.partition(":")
        layer = _number(layer, "prune_heads", text)
        if not colon or layer in heads:
            raise _refusal("prune_heads", text)
        heads[layer] = [_number(number, "prune_heads", text) for number in numbers.split(",")]
    return heads


def _number(text, name, value):
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise _refusal(name, value)
    return int(text)


def _refusal(name, value):
    form = {"layers": "0,2,4", "prune_heads": '"0:1,3;2:0", each layer once'}[name]
    return ValueError(f"--{name} must be numbers such as {form}; got {value!r}. Layers and heads start from 0.")
