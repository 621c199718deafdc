"""Search an index of sentence embeddings (semantic search).

    bert-tf embed --model=all-MiniLM-L6-v2 --input_file=news.txt \\
        --index_dir=news.index
    bert-tf search --index_dir=news.index "floods in spring" "a new museum"

Prints the texts that are most similar to each query, by cosine similarity. With
--rerank, a reranker orders them. With --reader, prints the answers that a
question-answering model finds in them.
"""

from bert_tf.cli.common_flags import PROMPT
from bert_tf.utils.json_files import json_text
from bert_tf.utils.settings import Flag

FLAGS = (
    Flag("index_dir", None, "Index made with `bert-tf embed --index_dir`.", required=True),
    Flag("model", None, "Model that the index was made with. Default: its path at that time."),
    Flag("top_k", 10, "Number of texts to return per query.", "integer", low=1),
    *PROMPT,
    Flag("rerank", None, "Exported or trained reranker, or CrossEncoder directory, that orders the texts found."),
    Flag(
        "rerank_top_k", 50,
        "With --rerank: number of texts per query that the index returns and the reranker scores, of which --top_k are "
        "kept.",
        "integer", low=1,
    ),
    Flag(
        "reader", None,
        "Exported or trained question-answering model that answers the queries from the texts found.",
    ),
    Flag("json", False, "Print JSON, one object per line for each query.", "bool"),
)
TAKES_TEXTS = True


def main(settings, texts):
    """Prints the nearest texts of each query, or the answers in them, the best first."""
    from bert_tf.inference.reranker import Reranker
    from bert_tf.inference.search import SearchIndex, read_queries
    from bert_tf.inference.search_reader import SearchReader

    queries, index = read_queries(texts), SearchIndex(settings.index_dir, settings.model)
    reader = SearchReader(settings.reader) if settings.reader else None
    if "rerank_top_k" in settings.given and not settings.rerank:
        raise ValueError("`rerank_top_k` requires `rerank`. Add `rerank` or remove `rerank_top_k`.")
    reranker = Reranker(settings.rerank) if settings.rerank else None
    count = max(settings.top_k, settings.rerank_top_k) if reranker else settings.top_k
    hits = index.search(index.encoder(settings.prompt, settings.prompt_name)(queries), count)
    if reranker:
        hits = [found[: settings.top_k] for found in reranker(queries, hits)]
    answers = reader(queries, hits) if reader else [None] * len(queries)
    for query, found, read in zip(queries, hits, answers, strict=True):
        if settings.json:
            of_reader = {} if read is None else {"answers": [each._asdict() for each in read]}
            results = [hit._asdict() for hit in found]
            print(json_text({"query": query, **of_reader, "results": results}, ensure_ascii=False), flush=True)
            continue
        print(query)
        for each in found if read is None else read:
            shown = each.text if read is None else f"{each.start}:{each.end}  {each.answer}"
            print(f"  {each.score:.4f}  {each.id:>8}  {shown}", flush=True)
