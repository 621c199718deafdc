"""Tokenized examples of the splits of a run, and the counts of their tokens."""

from collections.abc import Mapping

from bert_tf.runs.fine_tuning_files import kind_of_split
from bert_tf.tasks.base import Examples, FineTuningTask
from bert_tf.tasks.trainable_task import EncodedExamples
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.token_counter import TokenCounter
from bert_tf.utils.token_counts import TokenCounts


def encode_splits(
    task: FineTuningTask, tokenizer: BaseTokenizer, examples: Mapping[str, Examples], max_seq_length: int
) -> tuple[dict[str, EncodedExamples], dict[str, TokenCounts]]:
    """Returns {split: tokenized examples}, those to predict for without targets, and {split: counts of its tokens}."""
    rows, counts = {}, {}
    for split, several in examples.items():
        counter = TokenCounter(tokenizer)
        rows[split] = task.encode_examples(counter, several, max_seq_length, kind_of_split(split) != "test")
        counts[split] = TokenCounts().plus(counter.counts().numpy())
    return rows, counts
