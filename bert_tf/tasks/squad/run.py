"""What a run on SQuAD does beside the task: questions to rows, what the rows say to answers, scores and files."""

from collections.abc import Mapping

from absl import logging

from bert_tf.evaluation import squad_files, squad_scores
from bert_tf.tasks.classification.source import ACTIONS
from bert_tf.tasks.squad.answers import Answers, merge
from bert_tf.tasks.squad.files import SquadExamples, read_squad
from bert_tf.tasks.squad.rows import QuestionRows, question_rows
from bert_tf.tasks.squad.task import QuestionAnsweringTask

TEXT_INPUTS = ("question", "context")


def read_splits(files: Mapping[str, str | None], version_2: bool) -> dict[str, SquadExamples]:
    """Reads the files of a run.

    Args:
        files: {"train", "dev" or "test": path}; the answers of "test" are not looked at.
        version_2: questions may have no answer.

    Raises:
        ValueError: a split has no file, a file is not as described, or has a question without answer against version_2.
    """
    texts = {}
    for split, path in files.items():
        if not path:
            action = ACTIONS[split]
            raise ValueError(f"--do_{action} must have questions. Received no --{action}_file; name one.")
        texts[split] = read_squad(path, with_answers=split != "test")
        if True in texts[split].is_impossible and not version_2:
            raise ValueError(
                f"{texts[split].where(texts[split].is_impossible.index(True))}: every question must have an answer, "
                "unless --version_2_with_negative is given. Received one that is_impossible; give it, or name a file "
                "of SQuAD 1.1."
            )
    return texts


def lay_out(tokenizer, texts: Mapping[str, SquadExamples], max_seq_length: int, doc_stride: int, max_query_length: int):
    """Returns {split: `QuestionRows`}, those of "train" with targets; see `squad_rows.question_rows`.

    Raises:
        ValueError: the lengths leave no room for the context, or gaps in it.
    """
    lengths = (max_seq_length, doc_stride, max_query_length)
    return {
        split: question_rows(tokenizer, examples, *lengths, with_answers=split == "train")
        for split, examples in texts.items()
    }


def find_answers(task: QuestionAnsweringTask, rows: QuestionRows, examples: SquadExamples, collected, log=False):
    """Returns the list of `Answers`, one to each question.

    Args:
        task: what was asked.
        rows, examples: the questions.
        collected: what the task kept of the rows.
        log: log every question with the best span.
    """
    answers = merge(rows, examples, collected, task.n_best_size, task.null_score_diff_threshold is not None)
    for i, each in enumerate(answers if log else ()):
        logging.info(
            "%s %r: %r, score %.3f; no answer %.3f",
            *(examples.ids[i], examples.questions[i], each.best.text, each.best.score, each.null_score),
        )
    return answers


def score(examples: SquadExamples, answers: list[Answers], threshold: float | None, prefix: str) -> dict[str, float]:
    """Returns what `squad_scores.score` does, each name with the prefix; {} where the file has no answers to score by.

    Args:
        examples: questions of a file that `read_squad` took.
        answers: what was found.
        threshold: no answer is predicted where the odds are greater; None: SQuAD 1.1.
        prefix: of the names.
    """
    try:
        golds = squad_files.read_golds(examples.path)
    except ValueError as error:  # its format is right, so it lacks answers
        logging.info("Not scored: %s", error)
        return {}
    if not any(golds.texts.values()):
        return {}
    texts = {name: each.text(None) for name, each in zip(examples.ids, answers, strict=True)}
    odds = {name: each.null_odds for name, each in zip(examples.ids, answers, strict=True)}
    found = squad_scores.score(golds, texts, *(() if threshold is None else (odds, threshold)))
    return {f"{prefix}{name}": value for name, value in found.items()}
