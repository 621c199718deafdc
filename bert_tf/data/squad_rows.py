"""Questions and contexts to the rows that BERT reads: a row for each window of a context, and where it came from."""

import dataclasses

import numpy as np
from absl import logging

from bert_tf.data.dataset import Tokenized
from bert_tf.data.ragged import Ragged, concatenate, ranges, splits_of
from bert_tf.data.squad import SquadExamples
from bert_tf.tokenization.questions import check_lengths
from bert_tf.tokenization.windows import windows_of

_CHUNK = 5_000  # texts tokenized at a time: few enough to keep memory small


@dataclasses.dataclass(frozen=True)
class QuestionRows:
    """w rows `[CLS] question [SEP] window [SEP]`, those of one question one after the other.

    Attributes:
        tokenized: the rows; its targets are `start_positions` and `end_positions`, int32 [w], the columns of the
            answer's first and last piece, 0 where the window does not hold the whole answer; none without answers.
        example: int64 [w], the question that each row is of; ascending.
        starts, limits: int32, the code points of the context from and to which each piece of the rows is; -1 where a
            piece is not of the context.
    """

    tokenized: Tokenized
    example: np.ndarray
    starts: Ragged
    limits: Ragged

    def __len__(self):
        return len(self.example)


@dataclasses.dataclass(frozen=True)
class _Pieces:
    """Texts as ids of pieces and the code points they came from: three Ragged of int32 with the same splits."""

    ids: Ragged
    starts: Ragged
    limits: Ragged


def question_rows(
    tokenizer,
    examples: SquadExamples,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    with_answers: bool,
) -> QuestionRows:
    """Cuts contexts into windows, as google-research/bert's run_squad.py does, and joins each with its question.

        [CLS] who is it ? [SEP] ada wrote the first program [SEP]        max_seq_length 12, doc_stride 2
        [CLS] who is it ? [SEP] the first program .         [SEP]

    The rows are those of `tokenization.questions.question_windows`, which serves; here every context is tokenized once,
    however many questions there are about it.

    Args:
        tokenizer: a `Tokenizer`.
        examples: from `squad.read_squad`.
        max_seq_length: pieces in a row at most.
        doc_stride: pieces from one window's start to the next's.
        max_query_length: pieces of a question at most; the end is cut.
        with_answers: make the targets, of the first answer of each question.

    Raises:
        ValueError: the lengths leave no room for the context, or gaps in it.
    """
    check_lengths(max_seq_length, max_query_length, doc_stride)
    distinct = {context: i for i, context in enumerate(dict.fromkeys(examples.contexts))}
    context_of = np.array([distinct[context] for context in examples.contexts], np.int64)
    contexts = _tokenize(tokenizer, list(distinct))
    questions = _cut(_tokenize(tokenizer, examples.questions).ids, max_query_length)
    room = max_seq_length - 3 - questions.lengths
    windows = windows_of(contexts.ids.lengths[context_of], room, doc_stride)
    example, window_starts, lengths = (np.asarray(part) for part in windows)
    layout = _Layout(questions.lengths[example], lengths, contexts.ids.splits[context_of[example]] + window_starts)
    targets = {}
    if with_answers:
        spans = _answer_pieces(examples, contexts, context_of)
        targets = _targets(spans[:, example], window_starts, layout)
    pieces = _pieces(tokenizer, questions.take(example), contexts.ids, layout)
    rows = QuestionRows(
        Tokenized(pieces, layout.splits, targets),
        example,
        *(Ragged(layout.place(part.flat, -1), layout.splits) for part in (contexts.starts, contexts.limits)),
    )
    _log(examples, len(distinct), rows)
    return rows


class _Layout:
    """Where in w rows, end to end, their parts are.

    Attributes:
        question, window: int64 [w], lengths of the two.
        origin: int64 [w], where in the flat pieces of all contexts the window begins.
        splits: int64 [w + 1], where each row begins and ends.
    """

    def __init__(self, question, window, origin):
        self.question, self.window, self.origin = question, window, origin
        self.splits = splits_of(question + window + 3)

    def place(self, values, fill):
        """Returns int32 [all pieces of the rows]: values of the contexts' pieces in the windows, `fill` elsewhere."""
        flat = np.full(self.splits[-1], fill, np.int32)
        places = ranges(self.splits[:-1] + self.question + 2, self.window)
        flat[places] = values[ranges(self.origin, self.window)]
        return flat


def _pieces(tokenizer, questions, contexts, layout):
    """Returns `input_ids` and `segment_ids`, int32 [all pieces]."""
    ids = layout.place(contexts.flat, tokenizer.sep_id)
    ids[layout.splits[:-1]] = tokenizer.cls_id
    ids[ranges(layout.splits[:-1] + 1, layout.question)] = questions.flat
    of_segment = np.stack([layout.question + 2, layout.window + 1], axis=1).reshape(-1)
    return {"input_ids": ids, "segment_ids": np.repeat(np.arange(len(of_segment), dtype=np.int32) % 2, of_segment)}


def _answer_pieces(examples, contexts, context_of):
    """Returns int64 [2, n]: the first and the last piece of the context with a character of the first answer.

    Without an answer, or with one that has no piece (a control character, say), the last is before the first.
    """
    text_and_start = [answers[0] if answers else ("", 0) for answers in examples.answers]
    start = np.array([start for _, start in text_and_start], np.int64)
    limit = start + np.array([len(text) for text, _ in text_and_start], np.int64)
    # One search in all contexts at once: the k-th context's code points count from k times more than any has.
    apart = np.int64(max(map(len, examples.contexts)) + 1)
    base = np.repeat(np.arange(len(contexts.ids.lengths)) * apart, contexts.ids.lengths)
    before = np.searchsorted(base + contexts.limits.flat, context_of * apart + start, "right")
    until = np.searchsorted(base + contexts.starts.flat, context_of * apart + limit, "left")
    until = np.where(start == limit, before, until)
    return np.stack([before, until - 1]) - contexts.ids.splits[context_of]


def _targets(spans, window_starts, layout):
    """Returns the columns of the answers' ends in the rows, 0 where a row does not hold all of its answer."""
    first, last = spans - window_starts
    held = (first >= 0) & (first <= last) & (last < layout.window)
    columns = (np.where(held, end + layout.question + 2, 0).astype(np.int32) for end in (first, last))
    return dict(zip(("start_positions", "end_positions"), columns, strict=True))


def _tokenize(tokenizer, texts):
    """Returns the `_Pieces` of texts, some at a time."""
    parts = [tokenizer.tokenize_with_offsets(texts[i : i + _CHUNK]) for i in range(0, len(texts), _CHUNK)]
    ragged = ([Ragged(part.flat_values.numpy(), part.row_splits.numpy()) for part in kind]
              for kind in zip(*parts, strict=True))  # fmt: skip
    return _Pieces(*map(concatenate, ragged))


def _cut(ids, longest):
    """Returns the first `longest` pieces of each row."""
    lengths = np.minimum(ids.lengths, longest)
    return Ragged.of_lengths(ids.flat[ranges(ids.splits[:-1], lengths)], lengths)


def _log(examples, contexts, rows):
    logging.info(
        "%s: %d questions about %d contexts, in %d rows of %.1f pieces each.",
        *(examples.path, len(examples), contexts, len(rows), rows.tokenized.lengths.mean()),
    )
    if rows.tokenized.targets:
        held = np.bincount(rows.example, rows.tokenized.targets["start_positions"] > 0, len(examples)) > 0
        lost = int(sum(bool(answers) for answers in examples.answers) - held.sum())
        if lost:
            logging.warning("%s: %d answers are in no window whole: they train as none.", examples.path, lost)
