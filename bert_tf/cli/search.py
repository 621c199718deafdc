"""Search an index of sentence embeddings (semantic search).

    bert-tf embed --model=demo/weights/minilm --input_file=news.txt \\
        --index_dir=news.index
    bert-tf search --index_dir=news.index "floods in spring" "a new museum"

Prints the texts that are most similar to each query, by cosine similarity. With
--rerank, a reranker orders them. With --reader, prints the answers that a
question-answering model finds in them. With --queries_file and --qrels_file,
computes MRR, nDCG and recall instead. With --export_file, writes the index as a
Parquet file.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.inference.settings import ApproximateSettings, PromptSettings
from bert_tf.utils.files import decode_argument
from bert_tf.utils.json_files import json_text, printable_json
from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class SearchSettings(ApproximateSettings, PromptSettings, UserSettings):
    """Options for searching, evaluating or exporting an index."""

    GROUP: ClassVar[str] = "Prediction"

    index_dir: str | None = option(None, "Index made with `bert-tf embed --index_dir`.", required=True, group="Data")
    model: str | None = option(
        None,
        "Model that the index was created with. Default: the path stored in the index.",
        group="Model", essential=True, reads_model=True,
    )
    top_k: int = option(
        10,
        "Number of texts to return per query. With --qrels_file: 10 or more; recall is also computed at this number.",
        low=1,
    )
    queries_file: str | None = option(
        None,
        "Queries, with --qrels_file and instead of arguments: a .tsv file without a header, with the columns id and "
        "text, or a .jsonl or .parquet file with id (or _id) and text.",
        group="Data",
    )
    qrels_file: str | None = option(
        None,
        "Relevance judgments in TREC or BEIR format, to evaluate the search for --queries_file. Document ids must be "
        "those in the index (`bert-tf embed --id_column`).",
        group="Data", excludes=("reader",),  # judgments are about documents, not answers
    )
    rerank: str | None = option(
        None,
        "Exported or trained reranker, or CrossEncoder directory, that orders the texts found.",
        reads_model=True,
    )
    rerank_top_k: int = option(
        50,
        "With --rerank: number of texts per query that the index returns and the reranker scores, of which --top_k are "
        "kept. Must be at least --top_k; the default is raised to --top_k if that is larger.",
        low=1,
    )
    rerank_weight: float = option(
        1.0,
        "With --rerank: weight of the reranker's scores. If below 1, cosine similarity gets the remainder; both "
        "are standardized for each query.",
        low=0.0, high=1.0,
    )
    reader: str | None = option(
        None,
        "Exported or trained question-answering model that answers the queries from the texts found.",
        reads_model=True,
    )
    export_file: str | None = option(
        None,
        "Instead of searching, write all documents and their embeddings to this Parquet file, for use in a vector "
        "database.",
        group="Output",
        excludes=(
            "top_k", "queries_file", "qrels_file", "rerank", "rerank_top_k", "rerank_weight", "reader", "json",
            *(flag.name for kind in (ApproximateSettings, PromptSettings) for flag in flags_of(kind)),
        ),
    )
    json: bool = option(False, "Print JSON, one object per line for each query.", group="Output", essential=True)


SETTINGS = SearchSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True


def main(settings: SearchSettings, texts):
    """Prints the nearest texts of each query, or the answers in them; or the metrics of the search; or exports."""
    if settings.export_file:
        _export(settings, texts)
        return
    from bert_tf.inference.reranker import Reranker
    from bert_tf.inference.retrieval import evaluate_search, read_judged_queries
    from bert_tf.inference.search import SearchIndex
    from bert_tf.inference.search_reader import SearchReader

    is_evaluation = bool(settings.queries_file or settings.qrels_file)
    if is_evaluation:
        _check_evaluation(settings, texts)
    _check_reranking(settings)
    queries = [] if is_evaluation else decode_queries(texts)
    index = SearchIndex(settings.index_dir, settings.model, settings.approximate)
    if is_evaluation:  # before the models are loaded, which takes longer
        judged = read_judged_queries(settings.queries_file, settings.qrels_file, index)
    reader = SearchReader(settings.reader) if settings.reader else None
    reranker = Reranker(settings.rerank, settings.rerank_weight) if settings.rerank else None
    count = max(settings.top_k, settings.rerank_top_k) if reranker else settings.top_k
    encoder = index.encoder(settings.prompt, settings.prompt_name)

    def search(queries):
        hits = index.search(encoder(queries), count)
        return [found[: settings.top_k] for found in reranker(queries, hits)] if reranker else hits

    if is_evaluation:
        _print_metrics(settings, len(judged.texts), evaluate_search(judged, search, settings.top_k))
    else:
        hits = search(queries)
        _print_hits(settings, queries, hits, reader(queries, hits) if reader else [None] * len(queries))


def decode_queries(arguments: Sequence[str]) -> list[str]:
    """Returns the queries on a command line, without bytes that are not UTF-8.

    Raises:
        ValueError: there is no query, or an empty one.
    """
    queries = [*map(decode_argument, arguments)]
    if not queries or not all(map(str.strip, queries)):
        raise ValueError(
            f'Pass one or more non-empty queries as arguments; got {queries}. Example: "floods in spring".'
        )
    return queries


def _print_hits(settings, queries, hits, answers):
    for query, found, read in zip(queries, hits, answers, strict=True):
        if settings.json:
            of_reader = {} if read is None else {"answers": [each._asdict() for each in read]}
            results = [hit._asdict() for hit in found]
            print(printable_json({"query": query, **of_reader, "results": results}), flush=True)
            continue
        print(query)
        for each in found if read is None else read:
            shown = each.text if read is None else f"{each.start}:{each.end}  {each.answer}"
            print(f"  {each.score:.4f}  {each.id:>8}  {shown}", flush=True)


def _export(settings, texts):
    """Writes the Parquet file."""
    from bert_tf.inference.search import SearchIndex

    path = settings.export_file
    if texts:
        raise ValueError(f"`export_file` cannot be combined with queries; got {texts[0]}; remove it.")
    if not path.lower().endswith(".parquet"):
        raise ValueError(f"`export_file` must end in .parquet; got {path}.")
    index = SearchIndex(settings.index_dir, settings.model)
    index.export(path)
    logging.info("Wrote %d documents with their embeddings to %s.", len(index), path)


def _check_reranking(settings):
    """Raises ValueError if nothing is reranked, or fewer texts than are asked for."""
    given = sorted({"rerank_top_k", "rerank_weight"} & settings.given)
    if given and not settings.rerank:
        raise ValueError(f"`{given[0]}` requires `rerank`. Add `rerank` or remove `{given[0]}`.")
    if "rerank_top_k" in given and settings.rerank_top_k < settings.top_k:
        raise ValueError(
            "`rerank_top_k` must be at least `top_k`, the number of texts to keep; got "
            f"`rerank_top_k={settings.rerank_top_k}` and `top_k={settings.top_k}`; raise `rerank_top_k` or lower "
            "`top_k`."
        )


def _check_evaluation(settings, texts):
    """Raises ValueError if the search cannot be evaluated, or something else is asked for too."""
    from bert_tf.evaluation.ranking import CUT
    from bert_tf.inference.retrieval import check_judgment_files

    check_judgment_files(settings.queries_file, settings.qrels_file)
    if texts:
        raise ValueError(f"`queries_file` cannot be combined with queries as arguments; got {texts}; remove one.")
    if settings.top_k < CUT:
        raise ValueError(
            f"`top_k` must be {CUT} or more with `qrels_file`, for nDCG@{CUT}; got {settings.top_k}."
        )


def _print_metrics(settings, num_queries, metrics):
    if settings.json:
        print(json_text({"num_queries": num_queries, **metrics}))
        return
    print(f"{num_queries} queries")
    for name, value in metrics.items():
        print(f"{name} = {value:.4f}")
