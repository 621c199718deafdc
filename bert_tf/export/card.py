"""The model card of an export, in Markdown, from the facts recorded in its files."""

import importlib.metadata
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

import bert_tf
from bert_tf.export.card_scores import format_scores
from bert_tf.export.cpu.model import size_of
from bert_tf.export.markdown import format_list, format_rows, format_section, format_table
from bert_tf.export.run_facts import RunFacts
from bert_tf.export.serving_module import ServingModule
from bert_tf.utils.counts import percent
from bert_tf.utils.files import file_names
from bert_tf.utils.token_counts import LARGE_SHARE, LARGE_SHARE_OF_TEXTS

FILE = "MODEL_CARD.md"

_INTRODUCTION = (
    "This card was generated from the files of the export and of the training run. Information that they lack, "
    "such as the intended use, is left out."
)
_PACKAGES = ("tensorflow", "tensorflow-text", "keras")
_MOST_LABELS = 1000
_SHARES = {  # what they are, and from which on they are a limit of the model
    "truncated": ("of the texts are truncated", LARGE_SHARE),
    "unknown": ("of the tokens are unknown", LARGE_SHARE),
    "unknown_texts": ("of the texts consist mostly of unknown tokens", LARGE_SHARE_OF_TEXTS),
}
_RETRAINED = {
    "labels": "labels of that model",
    "kept": "labels kept from it",
    "new": "new labels",
    "dropped": "labels dropped",
    "renamed": "labels renamed",
}


def model_card(
    served: ServingModule,
    signatures: Mapping[str, meta_graph_pb2.SignatureDef],
    task_options: Mapping[str, Any],
    facts: RunFacts,
) -> str:
    """Returns the card.

    Args:
        served: the exported model.
        signatures: those of the SavedModel.
        task_options: options of its task, JSON values.
        facts: about its training.
    """
    labels = served.task.labels or []
    parts = [
        "# Model card\n\n" + _INTRODUCTION,
        format_table("Model", _list_model(served, task_options, facts)),
        format_list(f"Labels ({len(labels)})", labels[:_MOST_LABELS]),
        format_table("Training", _list_training(facts)),
        _format_flags(facts.flags),
        format_scores(facts, served.options.dtype, served.task.metrics_note),
        _format_signatures(signatures),
        format_table("Versions", _list_versions(facts)),
        format_list("Known limits", [*_list_limits(served, facts)]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _list_limits(served, facts):
    yield from served.task.card_limitations(served.max_seq_length)
    yield from facts.gaps(served.task.has_several_labels)
    yield from _list_large_shares(facts.data.values())
    if served.is_calibrated:
        yield "It requires TensorFlow 2.17 or later: earlier versions lack its int8 operations."
    if served.task.config.is_decoder:
        yield "Its encoder is causal (left to right): the hidden state of a token depends only on the tokens up to it."
    yield "Bytes that are not UTF-8 are dropped."
    if _weight_dtypes(served) & {"int8"} and not facts.export_scores:
        yield "Its metrics in int8 were not measured."


def _list_large_shares(data):
    """Yields which files have many texts or tokens that the model does not read."""
    for each in data:
        for name, (words, large) in _SHARES.items():
            if each.get(name, 0) > large:
                yield f"In {file_names(each['file'])}, {percent(each[name])} {words}."


def _list_model(served, task_options, facts):
    config, tokenizer = served.task.config, served.tokenizer
    yield "task", served.task.name
    of_task = served.task.card_facts()
    yield from _list_task_options({name: each for name, each in task_options.items() if name not in of_task}, facts)
    yield from of_task.items()
    yield "texts per example", ", ".join(served.text_inputs)
    yield "longest sequence", f"{served.max_seq_length} tokens"
    yield "encoder", config.model_type
    yield "encoder layers", config.num_hidden_layers
    yield (
        "hidden size",
        f"{config.hidden_size}, feed-forward {config.intermediate_size}, {config.num_attention_heads} heads",
    )
    yield "vocabulary", f"{len(tokenizer.vocab):,} tokens in {os.path.basename(tokenizer.vocab_file)}"
    yield "numbers", ", ".join(sorted(_weight_dtypes(served)))
    if served.options.has_int8_products:
        yield "activation scales", "static (calibrated)" if served.is_calibrated else "dynamic (per row)"
    yield "weights", f"{served.num_weights:,}"
    yield "size of the weights", f"{size_of(served.weight_specs) / 2**20:,.1f} MiB"
    yield "exported for", served.options.export_for
    if served.options.parts > 1:
        yield "threads per request", served.options.parts


def _weight_dtypes(served):
    return {weight.dtype.name for weight in served.weight_specs}


def _list_task_options(task_options, facts):
    for name, value in task_options.items():
        was_chosen = facts.step is not None or not name.startswith("loss")  # nothing was trained, so no loss was chosen
        if name != "labels" and value is not None and was_chosen:
            yield name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _list_training(facts):
    yield "checkpoint", facts.checkpoint
    yield "step", facts.step
    yield "started from", facts.origin
    yield from _list_kept_labels(facts.retrained_from)
    yield from ((f"examples, {split}", _format_examples(each)) for split, each in facts.data.items())
    yield "trained until", facts.trained


def _list_kept_labels(retrained_from):
    renamed = [f"{old} to {new}" for old, new in retrained_from.get("renamed", {}).items()]
    for key, title in _RETRAINED.items():
        names = renamed if key == "renamed" else retrained_from.get(key, ())
        yield title, ", ".join(names[:_MOST_LABELS])
    yield "why no label was kept", retrained_from.get("reason")


def _format_examples(each):
    shares = ((name, words) for name, (words, _) in _SHARES.items() if name in each)
    return ", ".join([f"{file_names(each['file'])}, {each['rows']:,} rows",
                      *(f"{percent(each[name])} {words}" for name, words in shares)])  # fmt: skip


def _format_flags(flags):
    """Returns the flags as given; paths are shown in full."""
    if not flags:
        return ""
    return format_section(
        "Training flags", "```\n" + "\n".join(f"--{k}={v}" for k, v in flags.items()) + "\n```"
    )


def _format_signatures(signatures):
    rows = [
        (f"`{name}`", side, f"`{alias}`", tf.as_dtype(info.dtype).name, _format_shape(info.tensor_shape))
        for name, each in sorted(signatures.items(), key=lambda item: (item[0] != "serving_default", item[0]))
        if not name.startswith("__")
        for side, infos in (("input", each.inputs), ("output", each.outputs))
        for alias, info in sorted(infos.items())
    ]
    return format_section("Signatures", format_rows(("signature", "", "tensor", "type", "shape"), rows))


def _format_shape(shape):
    if shape.unknown_rank:
        return "any"
    return f"[{', '.join('?' if dim.size < 0 else str(dim.size) for dim in shape.dim)}]"


def _list_versions(facts):
    packages = (f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    yield "exported by", ", ".join([f"bert_tf {bert_tf.__version__}", *packages])
    if facts.versions:
        yield "trained by", ", ".join(f"{name} {version}" for name, version in facts.versions.items())
