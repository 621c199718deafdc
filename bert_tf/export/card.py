"""The model card of an export, in Markdown: what its files say, and nothing else."""

import dataclasses
import importlib.metadata
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import meta_graph_pb2

import bert_tf
from bert_tf.evaluation.results import read_results
from bert_tf.export.cpu.model import size_of
from bert_tf.export.serving_module import ServingModule
from bert_tf.training.history import HISTORY_FILE, read_history
from bert_tf.training.run_record import precision_of_scores

# === Run facts ===
# What the files of a training run say about the model that came of it. What they do not say stays open.


@dataclasses.dataclass(frozen=True)
class RunFacts:
    """Facts about a training run; empty or None where its files do not say.

    Attributes:
        checkpoint: name of the exported one.
        step: of its training.
        origin: what the training started from: the folder's name and the file's.
        flags: {name: value} that the last start was given.
        data: {split: {"file", "rows"}} that it read.
        versions: {package: version} that trained.
        trained: when the last step up to the exported one was reported, ISO 8601.
        scores: {name: score} as eval_results.txt has them.
        scored_step: of the model that has these scores.
        scored_data: those of `data` that the scores are of.
        scored_precision: in which the scores were computed, one of `names.PRECISIONS`.
        int8_scores: {name: score} of the same examples, as the export in int8 answers.
    """

    checkpoint: str = ""
    step: int | None = None
    origin: str | None = None
    flags: dict[str, str] = dataclasses.field(default_factory=dict)
    data: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    trained: str | None = None
    scores: dict[str, float] = dataclasses.field(default_factory=dict)
    scored_step: int | None = None
    scored_data: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    scored_precision: str | None = None
    int8_scores: dict[str, float] = dataclasses.field(default_factory=dict)


def read_run(directory: str, checkpoint: str) -> RunFacts:
    """Returns what is known of a trained model. A file that cannot be read is passed over, with a warning.

    Args:
        directory: what a program left in its output_dir, or any other with a checkpoint.
        checkpoint: the path of the exported one, or its prefix.
    """
    name = re.sub(r"(\.index|\.data-\d+-of-\d+)$", "", os.path.basename(checkpoint))
    step = re.fullmatch(r"model\.ckpt-(\d+)", name)
    facts = RunFacts(name, int(step[1]) if step else None)
    scores = _or_warn(read_results, directory) or {}
    lines = _or_warn(read_history, os.path.join(directory, HISTORY_FILE)) or []
    scored_step = scores.pop("global_step", None)
    facts = dataclasses.replace(
        facts,
        scores=scores,
        scored_step=scored_step and int(scored_step),
        scored_precision=_or_warn(precision_of_scores, directory) if scores else None,
    )
    return _with_history(facts, lines)


def _or_warn(reader, path):
    try:
        return reader(path)
    except ValueError as error:
        logging.warning("%s The model card says nothing of it.", error)
        return None


def _with_history(facts, lines):
    starts = [line for line in lines if line["kind"] == "start"]
    if not starts:
        return facts
    data = starts[-1].get("data", {})
    train = [line for line in lines if line["kind"] == "train" and line["step"] <= (facts.step or line["step"])]
    return dataclasses.replace(
        facts,
        origin=_shorten_path(starts[0]["from"]),
        flags=starts[-1]["flags"],
        data=data,
        versions=starts[-1]["versions"],
        trained=train[-1]["time"] if train else None,
        scored_data=_find_scored_data(facts, lines, data),
    )


def _find_scored_data(facts, lines, data):
    """Returns the files that the scores are of: those of this run's evaluation, if its history has the same numbers."""
    held_out = [line for line in lines if line["kind"] == "eval" and line["step"] == facts.scored_step]
    same = {name.removeprefix("eval_"): value for name, value in facts.scores.items() if name.startswith("eval_")}
    if not same or not held_out or not same.items() <= held_out[-1].items():
        return {}
    return {split: each for split, each in data.items() if split.partition("_")[0] == "dev"}


def _shorten_path(path):
    """Returns the end of a path: where a user keeps models is nobody's business, and nobody else's path."""
    if path is None:
        return None
    parent, name = os.path.split(os.path.normpath(path))
    return "/".join(filter(None, (os.path.basename(parent), name)))


# === Card ===


FILE = "MODEL_CARD.md"

_INTRODUCTION = (
    "Everything here stands in the files of the export, or of the run that trained the model. What those do not say, "
    "such as what the model is meant for, is left out."
)
_PACKAGES = ("tensorflow", "tensorflow-text", "keras")
_MOST_LABELS = 1000


def model_card(
    served: ServingModule,
    signatures: Mapping[str, meta_graph_pb2.SignatureDef],
    task_options: Mapping[str, Any],
    facts: RunFacts,
) -> str:
    """Returns the card.

    Args:
        served: the model.
        signatures: those of the SavedModel.
        task_options: of its task, JSON values.
        facts: about its training.
    """
    labels = served.task.labels or []
    parts = [
        "# Model card\n\n" + _INTRODUCTION,
        _format_table("Model", _list_model(served, task_options, facts)),
        _format_list(f"Labels ({len(labels)})", labels[:_MOST_LABELS]),
        _format_table("Training", _list_training(facts)),
        _format_flags(facts.flags),
        _format_scores(facts, served.options),
        _format_signatures(signatures),
        _format_table("Versions", _list_versions(facts)),
        _format_list("Known limits", [*_list_limits(served, facts)]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _list_limits(served, facts):
    yield from served.task.card_limitations(served.max_seq_length)
    if served.is_calibrated:
        yield "It loads in TensorFlow 2.17 and later: earlier versions do not have its products of integers."
    if served.task.config.is_decoder:
        yield "Its encoder reads from left to right: what it makes of a token depends on those before it alone."
    yield "Bytes that are not UTF-8 are dropped."
    if _weight_dtypes(served) & {"int8"} and not facts.int8_scores:
        yield "What it scores in int8 was not measured."


def _list_model(served, task_options, facts):
    config, tokenizer = served.task.config, served.tokenizer
    yield "task", served.task.name
    yield from _list_task_options(task_options, facts)
    yield "texts of an example", ", ".join(served.text_inputs)
    yield "longest sequence", f"{served.max_seq_length} tokens"
    yield "encoder", config.model_type
    yield "layers of the encoder", config.num_hidden_layers
    yield "width", f"{config.hidden_size}, feed-forward {config.intermediate_size}, {config.num_attention_heads} heads"
    yield "vocabulary", f"{len(tokenizer.vocab):,} tokens in {os.path.basename(tokenizer.vocab_file)}"
    yield "numbers", ", ".join(sorted(_weight_dtypes(served)))
    if served.options.has_int8_products:
        yield "scales of activations", "set by examples" if served.is_calibrated else "found for each row"
    yield "weights", f"{served.num_weights:,}"
    yield "size of the weights", f"{size_of(served.weight_specs) / 2**20:,.1f} MiB"
    yield "exported for", served.options.export_for
    if served.options.parts > 1:
        yield "threads of a request", served.options.parts


def _weight_dtypes(served):
    return {weight.dtype.name for weight in served.weight_specs}


def _list_task_options(task_options, facts):
    for name, value in task_options.items():
        was_chosen = facts.step is not None or not name.startswith("loss")  # nothing was trained: nobody chose a loss
        if name != "labels" and value is not None and was_chosen:
            yield name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _list_training(facts):
    yield "checkpoint", facts.checkpoint
    yield "step", facts.step
    yield "started from", facts.origin
    yield from ((f"examples, {split}", _format_examples(each)) for split, each in facts.data.items())
    yield "trained until", facts.trained


def _format_examples(each):
    return f"{os.path.basename(each['file'])}, {each['rows']:,} rows"


def _format_flags(flags):
    """Returns the flags as they were given; of a path they show the whole."""
    if not flags:
        return ""
    return _format_section(
        "Flags of the training", "```\n" + "\n".join(f"--{k}={v}" for k, v in flags.items()) + "\n```"
    )


def _describe_precision(facts, options):
    """Returns in which precision the scores were computed, and what that says of the export."""
    if facts.scored_precision is None:
        return "The files do not say in which precision they were computed."
    if facts.scored_precision.removeprefix("mixed_") == options.dtype:
        return f"They were computed in {options.dtype}, as this export computes."
    own = "" if facts.int8_scores else " What it scores in that was not measured."
    return f"They were computed in {facts.scored_precision}; this export is in {options.dtype}.{own}"


def _format_scores(facts, options):
    if not facts.scores:
        return ""
    of_int8 = {f"{name}, in int8 as exported": value for name, value in facts.int8_scores.items()}
    table = _format_table("Scores", (facts.scores | of_int8).items())
    of = ", ".join(_format_examples(each) for each in facts.scored_data.values())
    notes = [f"Of {of}." if of else "The files do not say on which examples."]
    if facts.step != facts.scored_step:
        notes.append(f"These are the scores of step {facts.scored_step}, and not of the exported weights.")
    notes.append(_describe_precision(facts, options))
    return f"{table}\n\n{' '.join(notes)}"


def _format_signatures(signatures):
    rows = [
        (f"`{name}`", side, f"`{alias}`", tf.as_dtype(info.dtype).name, _format_shape(info.tensor_shape))
        for name, each in sorted(signatures.items(), key=lambda item: (item[0] != "serving_default", item[0]))
        if not name.startswith("__")
        for side, infos in (("input", each.inputs), ("output", each.outputs))
        for alias, info in sorted(infos.items())
    ]
    return _format_section("Signatures", _format_rows(("signature", "", "tensor", "type", "shape"), rows))


def _format_shape(shape):
    if shape.unknown_rank:
        return "any"
    return f"[{', '.join('?' if dim.size < 0 else str(dim.size) for dim in shape.dim)}]"


def _list_versions(facts):
    packages = (f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    yield "exported by", ", ".join([f"bert_tf {bert_tf.__version__}", *packages])
    if facts.versions:
        yield "trained by", ", ".join(f"{name} {version}" for name, version in facts.versions.items())


def _format_table(heading: str, pairs: Iterable[tuple[str, Any]]) -> str:
    rows = [(name, value) for name, value in pairs if value not in (None, "")]
    return _format_section(heading, _format_rows(("", ""), rows)) if rows else ""


def _format_list(heading: str, items: Sequence[str]) -> str:
    return _format_section(heading, "\n".join(f"- {_format_cell(item)}" for item in items)) if items else ""


def _format_section(heading, text):
    return f"## {heading}\n\n{text}"


def _format_rows(header, rows):
    lines = [header, ["---"] * len(header), *([_format_cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _format_cell(value):
    """Returns a value that neither ends a cell nor the line."""
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")
