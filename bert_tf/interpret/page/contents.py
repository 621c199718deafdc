"""Contents of a page about a model and a text: facts for JSON, and arrays."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf import inspect
from bert_tf.interpret.encoded_text import EncodedText
from bert_tf.interpret.page.array_text import ROOT, Packed, pack_array
from bert_tf.interpret.page.target_parsing import target_of
from bert_tf.interpret.targets import trained_of
from bert_tf.utils.old_names import warn_of_old_name

VIEWS = ("heads", "model", "neurons", "inputs", "logit_lens", "layers", "attribution")

_OF_ATTENTION = frozenset({"heads", "model", "neurons"})
_ROOM, _BITS = 1.3e8, 3.5  # bits for all weights together, and at least for each: 38 million in BERT-base's 512 tokens
_SIDE = 48  # numbers in a row of a thumbnail


@dataclasses.dataclass(frozen=True)
class PageOptions:
    """The views, layers and target that a page shows.

    Attributes:
        views: names among VIEWS, each of which the model must have; if None, all that it has.
        layers: indices of the layers whose attention is shown, from 0; negative ones count from the end. If None, all.
        target: the prediction to explain, as `target_of` reads it. If None, the model's own.
        top_k: how many tokens for a masked word.

    Raises:
        ValueError: top_k is below 1.
    """

    views: Sequence[str] | None = None
    layers: Sequence[int] | None = None
    target: Any = None
    top_k: int = 5

    def __post_init__(self):
        if self.top_k < 1:
            raise ValueError(f"`top_k` must be at least 1; got {self.top_k}; the default is 5.")


@dataclasses.dataclass
class PageContents:
    """Facts and arrays of a page.

    Attributes:
        facts: for JSON.
        arrays: by name.
    """

    facts: dict[str, Any]
    arrays: dict[str, Packed] = dataclasses.field(default_factory=dict)


def gather(model: Any, texts: Sequence[str], choices: PageOptions = PageOptions()) -> PageContents:
    """Returns what a page shows of a text, or of a pair. The tokenizer's mask in it, "[MASK]", is a blank.

    Args:
        model: a model returned by `bert_tf.load`.
        texts: one, or two.
        choices: which views, layers and so on.

    Raises:
        ValueError: a view was named that the model cannot have; there is no such view, layer or target; the text is
            longer than the model's positions.
    """
    wanted = _choose_views(choices)
    config, trained = model.config, trained_of(model)
    layers = _layers(choices.layers, config.num_hidden_layers)
    given = [texts[0]] if len(texts) == 1 else [tuple(texts)]
    [row] = inspect.layers(model, given, masks=True)
    found = PageContents(
        {
            **_row_facts(row), "layers": layers, "heads": config.num_attention_heads,
            "all_layers": config.num_hidden_layers, "views": [], "notes": _list_notes(trained, row),
        }
    )  # fmt: skip
    if _OF_ATTENTION & set(wanted):
        _add_attention(found, model, given, layers, wanted)
    if "layers" in wanted:
        _add_layers(found, row)
    if "inputs" in wanted:
        _add_inputs(found, inspect.inputs(model, given, masks=True)[0])
    missing = {
        name: _try(add, model, choices.views is not None or bool(name == "attribution" and choices.target is not None))
        for name, add in (
            ("logit_lens", lambda: _add_logit_lens(found, model, given, choices.top_k)),
            ("attribution", lambda: _add_attribution(found, model, given, row, choices.target, trained)),
        )
        if name in wanted
    }
    found.facts["views"] = [{"name": name, "missing": missing.get(name)} for name in wanted]
    return found


def _choose_views(choices):
    views = VIEWS if choices.views is None else choices.views
    views = [_current_name(view) for view in ([views] if isinstance(views, str) else views)]
    wrong = [name for name in views if name not in VIEWS]
    if wrong or not views:
        raise ValueError(
            f"`views` must be some of {', '.join(VIEWS)}; got {', '.join(wrong) or 'none'}; choose among them."
        )
    if choices.target is not None and "attribution" not in views:
        raise ValueError(
            f"`target` requires the view attribution; got {', '.join(views)}. Add it, or remove `target`."
        )
    return [name for name in VIEWS if name in views]


def _current_name(view):
    if view != "masked_words":
        return view
    warn_of_old_name("The view `masked_words` is now `logit_lens`.")
    return "logit_lens"


def _layers(layers, count):
    """Returns numbers of layers from 0, in order."""
    layers = list(range(count)) if layers is None else np.atleast_1d(layers).tolist()
    wrong = [layer for layer in layers if not -count <= layer < count]
    if wrong or not layers:
        raise ValueError(
            f"`layers` must be numbers of layers, from 0 to {count - 1}; got "
            f"{', '.join(map(str, wrong)) or 'none'}; choose among them."
        )
    return sorted({layer % count for layer in layers})


def shown_name(path: str | None) -> str:
    """Returns what the page calls a model: the name of its directory, without those above it."""
    if path is None:
        return "a model"
    whole = os.path.abspath(path)
    return os.path.basename(whole if os.path.isdir(whole) else os.path.dirname(whole))


def _list_notes(trained, row) -> list[str]:
    """Returns in what the text is another one than those that the model answers for, of which the log warns too."""
    notes = []
    if not row.words:
        notes.append("The text contains no words: the results are about the model's special tokens alone.")
    if trained and len(row.tokens) > trained.max_seq_length:
        notes.append(
            f"The model was trained on rows of at most {trained.max_seq_length} tokens, and servers pass it no "
            f"longer ones. For this page, it reads all {len(row.tokens)} tokens at once."
        )
    if trained and len(trained.text_inputs) != len(row.texts):
        notes.append(
            f"The model was trained on examples of {_count(trained.text_inputs)} ({', '.join(trained.text_inputs)}). "
            f"For this page, it reads {_count(row.texts)}."
        )
    for note in notes:
        logging.warning("%s", note)
    return notes


def _count(texts):
    return "one text" if len(texts) == 1 else f"{len(texts)} texts"


def _try(add: Callable, model: Any, must: bool) -> str | None:
    """Adds a view; returns why an optional one cannot be shown, without the directories of the page's author."""
    try:
        add()
    except ValueError as error:
        if must:
            raise
        reason = str(error).replace("`", "").replace(model.path or "\0", shown_name(model.path))
        return reason[0].upper() + reason[1:]
    return None


def _row_facts(row: EncodedText):
    return {
        "texts": list(row.texts), "tokens": row.tokens, "of_text": row.of_text.tolist(),
        "segments": row.segments.tolist(), "words": [word._asdict() for word in row.words],
        "word_of_token": row.word_of_token.tolist(),
    }  # fmt: skip


def _add_attention(found, model, given, layers, wanted):
    [row] = inspect.neurons(model, given, masks=True)
    weights = row.weights[layers]
    found.facts["kept"] = row.heads[layers].tolist()
    if {"heads", "neurons"} & set(wanted):
        found.arrays["weights"] = pack_weights(weights)
    if "model" in wanted:
        means = weights.mean(2)
        found.facts["most"] = means.argmax(-1).tolist()
        found.facts["most_share"] = np.round(means.max(-1).astype(float), 4).tolist()
        found.arrays["thumbnails"] = pack_array(_shrink(weights)[np.newaxis])
    if "neurons" in wanted:
        found.facts["causal"] = bool(model.config.is_decoder)
        found.arrays["query"], found.arrays["key"] = pack_array(row.query[layers]), pack_array(row.key[layers])
        found.facts["position_terms"] = row.scaling_terms
        if row.positions:
            found.arrays["positions"] = pack_array(sum(row.positions.values())[layers])


def pack_weights(weights: np.ndarray) -> Packed:
    """Returns float32 [L, A, S, S], with a part for each layer; the more there are the fewer bits each has."""
    return pack_array(weights, ROOT, max(_BITS, _ROOM / weights.size))


def _shrink(weights):
    """Returns float32 [L, A, T, T]: the greatest weight of each of at most _SIDE x _SIDE fields."""
    length = weights.shape[-1]
    starts = np.unique(np.linspace(0, length, min(length, _SIDE), endpoint=False).astype(int))
    return np.maximum.reduceat(np.maximum.reduceat(weights, starts, 2), starts, 3)


def _add_layers(found, row):
    unit = np.stack([row.among_all(layer) for layer in range(len(row.values))])
    found.arrays["among"] = pack_array(unit)
    found.arrays["itself"] = pack_array(row.with_itself()[np.newaxis])


def _add_inputs(found, row):
    names = [name for name in ("token", "segment", "position", "task") if getattr(row, name) is not None]
    found.facts["inputs"] = names
    for name in (*names, "output"):
        found.arrays[f"input_{name}"] = pack_array(getattr(row, name)[np.newaxis])


def _add_logit_lens(found, model, given, top_k):
    [row] = inspect.logit_lens(model, given, top_k)
    tokens, which = np.unique(row.top_tokens, return_inverse=True)
    found.facts["masked"] = {"tokens": tokens.tolist(), "which": which.reshape(-1).tolist(),
                             "shape": list(row.top_tokens.shape)}  # fmt: skip
    found.arrays["masked"] = pack_array(row.probabilities[np.newaxis])
    found.arrays["masked_own"] = pack_array(row.own_probabilities[np.newaxis])


def _add_attribution(found, model, given, row, target, trained):
    wanted = None if target is None else target_of(model, row, target)
    [why] = inspect.attributions(model, given, [wanted], masks=True)
    labels, logits = (model.labels or []), why.logits.tolist() if why.logits.ndim == 1 else []
    problem = getattr(trained and trained.task, "problem", None)
    found.facts["attribution"] = {
        "target": why.target, "places": why.places, "chosen": target is not None, "values": why.values.tolist(),
        "word_values": why.word_values.tolist(), "score": why.score, "baseline_score": why.baseline_score,
        "gap": why.gap if np.isfinite(why.gap) else None, "steps": why.steps, "logits": logits,
        "probabilities": None if why.probabilities is None else why.probabilities.tolist(),
        "several": bool(problem and problem.has_several_labels),
        "labels": list(labels) if len(labels) == len(logits) else list(map(str, range(len(logits)))),
    }  # fmt: skip
