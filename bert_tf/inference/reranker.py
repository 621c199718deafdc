"""Reranks the documents that a search has found, with a cross-encoder."""

import functools
import json
import os
from collections.abc import Sequence

import numpy as np
from absl import logging

from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.inference.predictor import is_export, load_predictor
from bert_tf.inference.search import Hit
from bert_tf.models.config_files import task_in
from bert_tf.models.cross_encoder_files import CROSS_ENCODER, SCORE_ACTIVATIONS
from bert_tf.serving.client.requests import DOCUMENTS
from bert_tf.serving.exports import find_export
from bert_tf.utils.loaded_by_path import LoadedByPath

_LEAST = 2**-24  # of a probability: 1 - 2**-24 is the highest float32 below 1
_CHUNK = 16  # documents scored together: their scores do not depend on each other


class Reranker(LoadedByPath):
    """Scores the documents found by a search with a reranker, which reads the query and a document together.

        reranker = Reranker("models/reranker")
        queries = ["Why was the bridge closed?"]
        [hits] = reranker(queries, index.search(queries, top_k=50))

    Args:
        path: directory of an exported or trained reranker, or of a CrossEncoder, as in `Predictor`.
        weight: weight of the reranker's scores, from 0 to 1; the scores of the search get the remainder. See
            `combine_scores`.

    Raises:
        ValueError: there is no such model, or the weight is out of range.
    """

    def __init__(self, path: str | os.PathLike, weight: float = 1.0) -> None:
        if not 0 <= weight <= 1:
            raise ValueError(f"`weight` must be a number from 0 to 1; got {weight!r}.")
        self._path, self._weight = resolve_model(path), weight
        self._predict = load_predictor(self._path, DOCUMENTS, "rerank", "a reranker", _advise)

    def __call__(self, queries: Sequence[str], hits: Sequence[Sequence[Hit]]) -> list[list[Hit]]:
        """Returns the hits of each query with their new scores, the highest first; ties keep their order.

        The scores are the reranker's or, with a `weight` below 1, combined ones.

        Args:
            queries: the queries of the search.
            hits: what it found for each. Documents without text are left out.
        """
        self.check_process()
        return [self._ranked(query, found) for query, found in zip(queries, hits, strict=True)]

    def to_logits(self, scores: Sequence[float]) -> list[float]:
        """Converts this reranker's scores to logits; scores that already are logits are returned unchanged.

        The logits of probabilities are clipped to -16.6 to 16.6, because float32 rounds larger ones to 1.
        """
        if self._activation != "sigmoid":
            return list(scores)
        p = np.clip(np.asarray(scores, np.float64), _LEAST, 1 - _LEAST)
        return (np.log(p) - np.log1p(-p)).tolist()

    @functools.cached_property
    def _activation(self):
        """The activation of the scores, as in `RerankingTask`; None, with a warning, for an export without one."""
        if is_export(self._path):
            stated = (task_in(os.path.join(find_export(self._path), "assets.extra")) or {}).get("activation")
            if stated is None:
                logging.warning("%s does not state an activation. Its scores are taken to be logits.", self._path)
            return stated
        # Imported here, because an export needs none of it.
        from bert_tf.checkpoints.loading import load_description
        from bert_tf.tasks.registry import stated_task

        return getattr(stated_task(self._path, load_description([self._path])).task, "activation", None)

    def _ranked(self, query, hits):
        hits = [hit for hit in hits if hit.text.strip()]
        by_length = sorted(range(len(hits)), key=lambda i: len(hits[i].text))  # texts scored together need less padding
        chunks = [by_length[start : start + _CHUNK] for start in range(0, len(hits), _CHUNK)]
        answers = self._predict([(query, [hits[i].text for i in chunk]) for chunk in chunks], 1) if chunks else []
        scores = [0.0] * len(hits)
        for chunk, answer in zip(chunks, answers, strict=True):
            for i, score in zip(chunk, answer["scores"], strict=True):
                scores[i] = score
        if self._weight < 1 and hits:
            scores = combine_scores(self.to_logits(scores), [hit.score for hit in hits], self._weight)
        return sorted((hit._replace(score=score) for hit, score in zip(hits, scores, strict=True)),
                      key=lambda hit: -hit.score)  # fmt: skip


def combine_scores(logits: Sequence[float], found: Sequence[float], weight: float) -> list[float]:
    """Returns weight * logits + (1 - weight) * found, both standardized: combined scores of one query's documents.

    Logits and cosines differ in scale. So each list is standardized to a mean of 0 and a standard deviation of 1, or to
    zeros if all its scores are equal.

    Args:
        logits: logits of the reranker, at least one.
        found: the scores of the search.
        weight: from 0 to 1, of the logits.
    """
    return (weight * _standardized(logits) + (1 - weight) * _standardized(found)).tolist()


def _standardized(scores):
    centered = np.asarray(scores, np.float64) - np.mean(scores)
    return centered / (centered.std() or 1.0)


def _advise(directory):
    """Returns how to name the activation of a classifier with one output, which may be a reranker; "" for others."""
    # Imported here, because an export needs none of it.
    from bert_tf.checkpoints.loading import load_description
    from bert_tf.tasks.reranking.task import has_one_score

    if task_in(directory) is not None or not has_one_score(load_description([directory])):
        return ""
    key = json.dumps({CROSS_ENCODER: {"activation_fn": SCORE_ACTIVATIONS["sigmoid"]}})
    return (
        " Its files name no activation of a reranker's scores; if the model is a reranker, add "
        f"{key[1:-1]} to its config.json (for logits, {SCORE_ACTIVATIONS['identity']})."
    )
