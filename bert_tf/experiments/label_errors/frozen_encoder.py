"""Held-out probabilities without fine-tuning: logistic regressions on a frozen encoder's features and on words.

An encoder's features may miss what a word means for a label, and only the encoder knows what a rare word
means: the geometric mean of both finds more errors than either.
"""

from collections.abc import Sequence

import numpy as np

from bert_tf.checkpoints.feature_extractor import Extractor
from bert_tf.checkpoints.loading import load
from bert_tf.utils.progress import Countdown

_CHUNK = 500  # texts
_OF_VECTORS, _OF_WORDS = 0.005, 5.0  # the inverse strength of regularization: for standardized features, and for tf-idf
_POOLING, _LEFT_TO_RIGHT = ("mean", "cls"), ("mean", "last_token")
_ROUNDS = 1000


def vectors(texts: Sequence, settings) -> np.ndarray:
    """Returns each text's features, float32 [n, D]: the mean over tokens concatenated with the first token's.

    For a causal model, the last token's are used instead of the first's.

    Args:
        texts: n texts, or pairs.
        settings: `init_checkpoint`, `feature_layers`, `max_seq_length` and the arguments of `bert_tf.load`.
    """
    bert = load(settings.init_checkpoint, settings.do_lower_case, settings.bert_config_file, settings.vocab_file)
    pooling = _LEFT_TO_RIGHT if bert.config.is_decoder else _POOLING
    length = min(settings.max_seq_length, bert.config.max_length)
    extract = Extractor(bert.encoder, bert.tokenizer, settings.feature_layers, pooling, max_seq_length=length)
    order = np.argsort([-sum(map(len, [text] if isinstance(text, str) else text)) for text in texts], kind="stable")
    found = np.empty([len(texts), extract.width], np.float32)
    with Countdown("Reading the texts with the frozen encoder", "texts", len(texts)) as countdown:
        for start in range(0, len(texts), _CHUNK):
            chosen = order[start : start + _CHUNK]
            found[chosen] = extract([texts[i] for i in chosen])
            countdown.advance(len(chosen))
    return found


def held_out(features: np.ndarray, texts: Sequence[str], labels: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Returns float64 [n, L]: each example's probabilities from models of the other folds.

    Args:
        features: float [n, D].
        texts: n texts, for word counts.
        labels: int [n], of L classes.
        folds: int [n].
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    texts, probabilities = np.array(texts, object), np.zeros([len(labels), labels.max() + 1])
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        if len(set(labels[train])) < 2:  # one fold may have all examples of a rare label
            probabilities[np.ix_(test, np.unique(labels[train]))] = 1
            continue
        means = 0
        for values, model in (
            (features, make_pipeline(StandardScaler(), LogisticRegression(C=_OF_VECTORS, max_iter=_ROUNDS))),
            (texts, make_pipeline(_make_vectorizer(len(labels)), LogisticRegression(C=_OF_WORDS, max_iter=_ROUNDS))),
        ):
            model.fit(values[train], labels[train])
            means = means + model.predict_log_proba(values[test]) / 2
        means = np.exp(means - means.max(1, keepdims=True))
        probabilities[np.ix_(test, np.unique(labels[train]))] = means / means.sum(1, keepdims=True)
    return probabilities


def _make_vectorizer(n):
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        token_pattern=r"\w+|[^\w\s]", ngram_range=(1, 2), min_df=1 + (n > 1000), max_features=500_000, sublinear_tf=True
    )
