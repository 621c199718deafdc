"""The model card of an export, in Markdown, from the facts recorded in its files."""

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
from bert_tf.training.history import HISTORY_FILE, RETRAINED_FROM, first_start, read_history
from bert_tf.training.run_record import precision_of_scores
from bert_tf.utils.files import file_names

# === Run facts ===
# Facts about a model from the files of its training run. Facts that are not recorded there are left out.


@dataclasses.dataclass(frozen=True)
class RunFacts:
    """Facts about a training run; empty or None if they are not recorded.

    Attributes:
        checkpoint: name of the exported checkpoint.
        step: its training step.
        origin: the initial checkpoint: directory and file name.
        retrained_from: that model's labels, and which of them the head kept, as in run.json; {} if it has none.
        flags: {name: value} of the last start.
        data: {split: {"file", "rows"}} of the data files.
        versions: {package: version} used for training.
        trained: time of the last report up to the exported step, ISO 8601.
        scores: {name: score} from eval_results.txt.
        scored_step: the step of the evaluated model.
        scored_data: the files of `data` that were evaluated.
        scored_precision: of the evaluation, one of `names.PRECISIONS`.
        export_scores: {name: score} of the export itself on the same examples, if its precision is another.
    """

    checkpoint: str = ""
    step: int | None = None
    origin: str | None = None
    retrained_from: dict[str, Any] = dataclasses.field(default_factory=dict)
    flags: dict[str, str] = dataclasses.field(default_factory=dict)
    data: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    trained: str | None = None
    scores: dict[str, float] = dataclasses.field(default_factory=dict)
    scored_step: int | None = None
    scored_data: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    scored_precision: str | None = None
    export_scores: dict[str, float] = dataclasses.field(default_factory=dict)

    def are_scores_in(self, dtype: str) -> bool:
        """Returns whether `scores` were computed in an export's dtype; mixed precision computes the same."""
        return (self.scored_precision or "").removeprefix("mixed_") == dtype


def read_run(directory: str, checkpoint: str) -> RunFacts:
    """Returns the recorded facts about a trained model. A file that cannot be read is skipped with a warning.

    Args:
        directory: a training run's output_dir, or any directory with a checkpoint.
        checkpoint: path or prefix of the exported checkpoint.
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
        logging.warning("%s The model card omits it.", error)
        return None


def _with_history(facts, lines):
    starts, first = [line for line in lines if line["kind"] == "start"], first_start(lines)
    if not starts:
        return facts
    data = starts[-1].get("data", {})
    train = [line for line in lines if line["kind"] == "train" and line["step"] <= (facts.step or line["step"])]
    return dataclasses.replace(
        facts,
        origin=_shorten_path(first["from"]),
        retrained_from=first.get(RETRAINED_FROM, {}),
        flags=starts[-1]["flags"],
        data=data,
        versions=starts[-1]["versions"],
        trained=train[-1]["time"] if train else None,
        scored_data=_find_scored_data(facts, lines, data),
    )


def _find_scored_data(facts, lines, data):
    """Returns the evaluated files: those of this run's evaluation, if its history has the same numbers."""
    held_out = [line for line in lines if line["kind"] == "eval" and line["step"] == facts.scored_step]
    same = {name.removeprefix("eval_"): value for name, value in facts.scores.items() if name.startswith("eval_")}
    if not same or not held_out or not same.items() <= held_out[-1].items():
        return {}
    return {split: each for split, each in data.items() if split.partition("_")[0] == "dev"}


def _shorten_path(path):
    """Returns the end of a path: the full path is private, and useless on other machines."""
    if path is None:
        return None
    parent, name = os.path.split(os.path.normpath(path))
    return "/".join(filter(None, (os.path.basename(parent), name)))


# === Card ===


FILE = "MODEL_CARD.md"

_INTRODUCTION = (
    "This card was generated from the files of the export and of the training run. Information that they lack, "
    "such as the intended use, is left out."
)
_PACKAGES = ("tensorflow", "tensorflow-text", "keras")
_MOST_LABELS = 1000
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
        yield "It requires TensorFlow 2.17 or later: earlier versions lack its int8 operations."
    if served.task.config.is_decoder:
        yield "Its encoder is causal (left to right): the hidden state of a token depends only on the tokens up to it."
    yield "Bytes that are not UTF-8 are dropped."
    if _weight_dtypes(served) & {"int8"} and not facts.export_scores:
        yield "Its metrics in int8 were not measured."


def _list_model(served, task_options, facts):
    config, tokenizer = served.task.config, served.tokenizer
    yield "task", served.task.name
    yield from _list_task_options(task_options, facts)
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
    return f"{file_names(each['file'])}, {each['rows']:,} rows"


def _format_flags(flags):
    """Returns the flags as given; paths are shown in full."""
    if not flags:
        return ""
    return _format_section(
        "Training flags", "```\n" + "\n".join(f"--{k}={v}" for k, v in flags.items()) + "\n```"
    )


def _describe_precision(facts, options):
    """Describes the precision of the evaluation, and how it relates to the export's."""
    if facts.scored_precision is None:
        return "The precision of the evaluation was not recorded."
    if facts.are_scores_in(options.dtype):
        return f"The metrics were computed in {options.dtype}, the precision of this export."
    own = "" if facts.export_scores else " Its own metrics were not measured."
    return f"The metrics were computed in {facts.scored_precision}; this export is in {options.dtype}.{own}"


def _format_scores(facts, options):
    if not facts.scores:
        return ""
    own = {f"{name}, in {options.dtype} as exported": value for name, value in facts.export_scores.items()}
    table = _format_table("Scores", (facts.scores | own).items())
    of = ", ".join(_format_examples(each) for each in facts.scored_data.values())
    notes = [f"Evaluated on {of}." if of else "The evaluated examples were not recorded."]
    if facts.step != facts.scored_step:
        notes.append(f"These are the metrics of step {facts.scored_step}, not of the exported weights.")
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
    """Escapes a value so that it ends neither the cell nor the line."""
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")
