"""SQuAD's official scores, 1.1 and 2.0: identical to evaluate-v1.1.py and evaluate-v2.0.py."""

import re
import string
from collections import Counter
from collections.abc import Mapping

from absl import logging

from bert_tf.evaluation.squad_files import References

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII only: quotes of print stay


def score_squad(
    golds: References,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """Computes the official SQuAD metrics of predictions.

    A question without a prediction counts as wrong, as in evaluate-v1.1.py; evaluate-v2.0.py fails in that case.

    Args:
        golds: the reference answers.
        predictions: {question id: text}, empty for no answer.
        null_odds: {question id: odds} for all questions with a prediction; enables the metrics of SQuAD 2.0.
        threshold: odds above it count as a prediction of no answer (`--na-prob-thresh`).

    Returns:
        `exact` and `f1` in percent and `total`, the number of questions. For SQuAD 2.0, also `HasAns_...` and
        `NoAns_...` for the questions with and without an answer, if any; with null_odds, `best_exact`,
        `best_exact_thresh`, `best_f1` and `best_f1_thresh`: the best values over all thresholds, and these thresholds.
        `missing`: the number of questions without a prediction, if any.

    Raises:
        ValueError: no prediction belongs to one of the questions, or null_odds lack a question that has one.
    """
    missing = _check(golds, predictions, null_odds)
    version_2 = golds.version_2 or null_odds is not None
    raw = _raw_scores(golds.texts, predictions, version_2)
    scores = {}
    if version_2:
        counted = [_with_no_answers(each, golds.texts, null_odds or {}, threshold) for each in raw]
        has_answer = {name: bool(texts) for name, texts in golds.texts.items()}
        scores.update(_means(counted, golds.texts))
        for prefix, kind in (("HasAns", True), ("NoAns", False)):
            if names := [name for name, has in has_answer.items() if has is kind]:
                scores.update({f"{prefix}_{key}": value for key, value in _means(counted, names).items()})
        for name, each in zip(("exact", "f1"), raw, strict=True) if null_odds is not None else ():
            best, at = _best_threshold(each, predictions, null_odds, has_answer)
            scores.update({f"best_{name}": best, f"best_{name}_thresh": at})
    else:
        scores.update(_means(raw, golds.texts))
    return {**scores, "missing": missing} if missing else scores


def score_questions(golds: References, predictions: Mapping[str, str]) -> tuple[dict[str, float], dict[str, float]]:
    """Returns {question id: exact} and {question id: F1}, 0 to 1, of each prediction; "" means no answer."""
    return _raw_scores(golds.texts, predictions, golds.version_2)


def normalize(text: str) -> str:
    """Normalizes text: lowercase, without ASCII punctuation and articles (a, an, the), single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def f1_of(gold: str, prediction: str, version_2: bool) -> float:
    """Computes the F1 score over the words of two texts, as bags of words.

    If a side has no words left: 1 if the other has none either, otherwise 0; in SQuAD 1.1 always 0.
    """
    gold_words, words = normalize(gold).split(), normalize(prediction).split()
    if version_2 and not (gold_words and words):
        return float(gold_words == words)
    common = sum((Counter(gold_words) & Counter(words)).values())
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def _raw_scores(golds, predictions, version_2):
    """Returns {id: exact} and {id: f1} of what is predicted, each against the best-matching answer."""
    exact, f1 = {}, {}
    for name, texts in golds.items():
        if name not in predictions:
            continue
        if version_2:  # an answer of which nothing is left is none
            texts = [text for text in texts if normalize(text)] or [""]
        prediction = normalize(predictions[name])
        exact[name] = max(float(normalize(text) == prediction) for text in texts)
        f1[name] = max(f1_of(text, predictions[name], version_2) for text in texts)
    return exact, f1


def _with_no_answers(scores, golds, null_odds, threshold):
    """Returns the scores as they are when odds above the threshold mean no answer."""
    return {
        name: float(not golds[name]) if null_odds.get(name, threshold) > threshold else value
        for name, value in scores.items()
    }


def _means(scores, names):
    """Returns `exact`, `f1` and `total` over the questions `names`; one without a score counts as nought."""
    exact, f1 = (100.0 * sum(each.get(name, 0.0) for name in names) / len(names) for each in scores)
    return {"exact": exact, "f1": f1, "total": len(names)}


def _best_threshold(scores, predictions, null_odds, has_answer):
    """Returns (percent, threshold): from no answer everywhere on, questions are answered in the order of their odds.

    As the official script does it, questions of equal odds one by one, and a threshold of 0 where no answer helps.
    """
    current = best = sum(not has_answer[name] for name in scores)
    threshold = 0.0
    for name in sorted(null_odds, key=null_odds.get):
        if name not in scores:
            continue
        current += scores[name] if has_answer[name] else -bool(predictions[name])
        if current > best:
            best, threshold = current, null_odds[name]
    return 100.0 * best / len(has_answer), threshold


def _check(golds, predictions, null_odds):
    strange = [name for name in predictions if name not in golds.texts]
    if len(strange) == len(predictions):
        raise ValueError(
            f"The predictions do not belong to {golds.path}: none of {len(predictions)} predictions is for "
            f"one of its {len(golds.texts)} questions{_some(strange)}. Use matching files."
        )
    without = [n for n in predictions if null_odds is not None and n in golds.texts and n not in null_odds]
    if without:
        raise ValueError(
            "The null odds must include every question that has a prediction. They lack "
            f"{len(without)}{_some(without)}; use the files of one run."
        )
    missing = [name for name in golds.texts if name not in predictions]
    if strange:
        logging.warning("%d predictions match no question of %s%s.", len(strange), golds.path, _some(strange))
    if missing:
        logging.warning("%d questions have no prediction and count as wrong%s.", len(missing), _some(missing))
    return len(missing)


def _some(names):
    return f": {', '.join(map(repr, names[:5]))}{', ...' if len(names) > 5 else ''}" if names else ""
