"""Matching texts with hard negatives, and how they are made from the queries and documents of a reranker's files."""

import dataclasses

from bert_tf.data.dialect import Dialect
from bert_tf.data.ranking_files import RankingExamples, read_ranking_file
from bert_tf.data.row_errors import line_position
from bert_tf.data.table_reader import names_in
from bert_tf.tasks.embedding.losses import LOSS_FUNCTIONS, evaluation_by
from bert_tf.utils.files import find_files


@dataclasses.dataclass
class TextGroups:
    """n queries, each with a matching text and with texts that do not match, as parallel lists.

    Attributes:
        ids: "0", "1", ...
        queries: the queries; the same again for each of its matching texts.
        positives: a matching text each.
        negatives: for each query any number of hard negatives.
        path: the file, or several as `files.find_files` takes them.
        lines: as in `LabeledTexts`.
        labels: a teacher's margin between the positive and the only negative. If None, there are none.
    """

    ids: list[str]
    queries: list[str]
    positives: list[str]
    negatives: list[list[str]]
    path: str
    lines: list[int] | list[str]
    labels: list[float] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def texts(self) -> dict[str, list[str]]:
        """{name: n texts}; the negatives of a query are one text."""
        return {"query": self.queries, "positive": self.positives, "negatives": list(map("\n".join, self.negatives))}

    @property
    def groups(self) -> list[list[str]]:
        """The texts of each example: the query, the matching text and the negatives."""
        return [[*each[:2], *each[2]] for each in zip(self.queries, self.positives, self.negatives, strict=True)]

    def where(self, index: int) -> str:
        """Returns "file:line" of example `index`, the beginning of error messages."""
        return line_position(self.path, self.lines[index])


def is_list_file(path: str, dialect: Dialect) -> bool:
    """Returns whether a file, or the first of several, is one of queries with lists of texts."""
    first = find_files(path)[0]
    is_list = first.lower().removesuffix(".gz").endswith((".jsonl", ".parquet"))
    return is_list and "query" in (names := names_in(first, dialect)) and ("positives" in names or "documents" in names)


def group_texts(examples: RankingExamples, one_negative: bool) -> TextGroups:
    """Returns an example for each relevant document of a query, with the documents that are not relevant.

    Args:
        examples: queries with relevances.
        one_negative: make an example for each pair of a relevant document and another one, with the difference of
            their scores as the label, if they have scores.
    """
    found = TextGroups([], [], [], [], examples.path, [], None if examples.scores is None else [])
    for row, (query, documents) in enumerate(zip(examples.queries, examples.documents, strict=True)):
        relevances = examples.relevances[row]
        negatives = [place for place, relevance in enumerate(relevances) if relevance < 1]
        for positive in (place for place, relevance in enumerate(relevances) if relevance > 0):
            for group in [[each] for each in negatives] if one_negative else [negatives]:
                found.ids.append(str(len(found.ids)))
                found.queries.append(query)
                found.positives.append(documents[positive])
                found.negatives.append([documents[place] for place in group])
                found.lines.append(examples.lines[row])
                if examples.scores is not None:
                    found.labels.append(examples.scores[row][positive] - examples.scores[row][group[0]])
    return found


def read_text_groups(options, kind, with_scores):
    loss, path = LOSS_FUNCTIONS[options.loss], options.files[kind]
    is_training = kind == "train"
    if with_scores and not (is_training and loss.margins):
        what = f"`loss={options.loss}`" if is_training else "an evaluation by correlation"
        raise ValueError(
            f"{path}: {what} requires pairs with scores; got queries with lists of texts; choose a `loss` for lists, "
            "or pass `eval_metric=retrieval` for an evaluation."
        )
    by_score = evaluation_by(options.loss, options.eval_metric) == "spearman"
    if with_scores and options.where_given("label_column") is not None and not by_score:
        raise ValueError(
            f"`label_column` requires a table; got {path}, which contains queries with lists of texts and takes their "
            "margins from `scores`; remove `label_column`."
        )
    if options.drop_empty:
        raise ValueError(
            f"`drop_empty` requires a table; got {path}, which contains queries with lists of texts; remove "
            "`drop_empty`."
        )
    read = read_ranking_file(path, True, options.dialect, with_scores)
    examples = group_texts(read, one_negative=is_training and loss.texts == (3,))
    if not len(examples):
        raise ValueError(f"{path}: `loss={options.loss}` requires negatives. No query has any; add some.")
    return examples
