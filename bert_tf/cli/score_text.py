"""Compute pseudo-log-likelihoods and pseudo-perplexity of texts.

    bert-tf score-text --model=uncased_L-12_H-768_A-12 \\
        "The man went home ." "The man home went ."
    bert-tf score-text --model=pretrained --input_file=texts.txt \\
        --output_file=scores.jsonl

A causal model, pretrained with --objective=left_to_right, gives
log-likelihoods and perplexity.
"""

import dataclasses
from typing import ClassVar

from absl import logging

from bert_tf.cli.batch_prediction import BatchPredictionSettings
from bert_tf.tokenization.settings import TokenizerSettings
from bert_tf.utils.files import decode_argument
from bert_tf.utils.json_files import printable_json
from bert_tf.utils.settings import UserSettings, flags_of, option, option_as


@dataclasses.dataclass(frozen=True)
class ScoreTextSettings(BatchPredictionSettings, TokenizerSettings, UserSettings):
    """Texts to score, and the model to score them with."""

    GROUP: ClassVar[str] = "Model"

    model: str | None = option(
        None,
        "Checkpoint with a masked-LM head: a Hugging Face directory, the --output_dir of `pretrain run`, or a TF1 "
        "checkpoint (its directory or prefix).",
        required=True, essential=True, reads_model=True,
    )
    tokens: bool = option(
        False, "Also report the log-probability of each token.", group="Prediction", aliases=("pieces",)
    )
    json: bool = option(
        False,
        "Print JSON for texts that are arguments, one object per line.",
        group="Output", essential=True,
    )
    input_file: str | None = option_as(BatchPredictionSettings, "input_file", required=False)
    output_file: str | None = option_as(BatchPredictionSettings, "output_file", required=False)
    rows_per_chunk: int = 256  # a text of 20 tokens is read 20 times


SETTINGS = ScoreTextSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True


def main(settings: ScoreTextSettings, texts):
    """Prints the scores of the arguments, or writes those of a file."""
    files = [name for name in ("input_file", "output_file") if getattr(settings, name)]
    if len(files) != (0 if texts else 2):
        received = [*(["texts as arguments"] if texts else [])]
        received += [f"`{name}={getattr(settings, name)}`" for name in files]
        raise ValueError(
            "Pass texts as arguments, or both `input_file` and `output_file`; got "
            f"{' and '.join(received) or 'neither'}."
        )
    of_files = {flag.name for flag in flags_of(BatchPredictionSettings)}
    idle, beside = (of_files, "arguments") if texts else ({"json"}, "--output_file")
    for name in sorted(idle & settings.given):
        logging.warning("--%s has no effect with %s.", name, beside)
    if texts:
        _print_scores(settings, [*map(decode_argument, texts)])
    else:
        _write_scores(settings)


def _print_scores(settings, texts):
    from bert_tf.inference.batch_prediction.column_values import to_json_values
    from bert_tf.inference.score_columns import score_columns
    from bert_tf.inference.score_text import TextScorer, perplexity

    scorer = TextScorer(settings.model, settings.vocab_file, settings.do_lower_case, settings.max_seq_length)
    scores = scorer(texts)
    table = score_columns(range(len(texts)), texts, scores, scorer.measure, settings.tokens)
    lists = {name: to_json_values(values) for name, values in table.items()}
    for row in zip(*lists.values(), strict=True):
        answer = dict(zip(lists, row, strict=True))
        print(printable_json(answer) if settings.json else _as_text(answer, scorer.measure), flush=True)
    total, tokens = sum(score.total for score in scores), sum(len(score.tokens) for score in scores)
    _tell(scorer.measure, perplexity(total, tokens), tokens, len(texts))


def _write_scores(settings):
    import numpy as np

    from bert_tf.cli.batch_prediction import run_batch_prediction
    from bert_tf.inference.batch_prediction.output_formats import format_of
    from bert_tf.inference.score_columns import NUMBER, ScoreMaker
    from bert_tf.inference.score_text import perplexity

    if len(settings.text_column) != 1:
        received = ",".join(settings.text_column)
        raise ValueError(f"`text_column` must name a single column; got {received}. Score one column at a time.")
    maker = ScoreMaker(
        settings.model, settings.vocab_file, settings.do_lower_case, settings.max_seq_length, settings.tokens
    )
    measure = maker.measure
    form, written = format_of(settings.output_file), run_batch_prediction(settings, maker)
    scores, counts = (np.concatenate([form.numbers(path, name) for path in written]) for name in (measure, NUMBER))
    has_text = ~np.isnan(counts)  # of rows without one both are null; a score alone is null where it is not finite
    tokens = int(counts[has_text].sum())
    _tell(measure, perplexity(scores[has_text].sum(dtype="float64"), tokens), tokens, int(has_text.sum()))


def _as_text(answer, measure):
    """Returns a score for the eye: the sum, the mean and the number of tokens, then the text; each token, if wanted."""
    head = f"{answer[measure]:12.4f} {answer['per_token']:9.4f} {answer['num_tokens']:5}  {answer['text']}"
    tokens = zip(answer.get("log_probabilities", ()), answer.get("tokens", ()), strict=True)
    return "\n".join([head, *(f"{value:12.4f}  {token}" for value, token in tokens)])


def _tell(measure, found, tokens, texts):
    name = {"pseudo_log_likelihood": "Pseudo-perplexity", "log_likelihood": "Perplexity"}[measure]
    logging.info("%s: %.5g, over %d tokens of %d texts.", name, found, tokens, texts)
