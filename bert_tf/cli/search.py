"""Search an index of sentence embeddings (semantic search).

    bert-tf embed --model=all-MiniLM-L6-v2 --input_file=news.txt \\
        --index_dir=news.index
    bert-tf search --index_dir=news.index "floods in spring" "a new museum"

Prints the texts that are most similar to each query, by cosine similarity.
"""

from bert_tf.cli.common_flags import PROMPT
from bert_tf.utils.json_files import json_text
from bert_tf.utils.settings import Flag

FLAGS = (
    Flag("index_dir", None, "Index made with `bert-tf embed --index_dir`.", required=True),
    Flag("model", None, "Model that the index was made with. Default: its path at that time."),
    Flag("top_k", 10, "Number of texts to return per query.", "integer", low=1),
    *PROMPT,
    Flag("json", False, "Print JSON, one object per line for each query.", "bool"),
)
TAKES_TEXTS = True


def main(settings, texts):
    """Prints the nearest texts of each query, the best first."""
    from bert_tf.inference.search import SearchIndex, read_queries

    queries, index = read_queries(texts), SearchIndex(settings.index_dir, settings.model)
    vectors = index.encoder(settings.prompt, settings.prompt_name)(queries)
    for query, hits in zip(queries, index.search(vectors, settings.top_k), strict=True):
        if settings.json:
            results = [hit._asdict() for hit in hits]
            print(json_text({"query": query, "results": results}, ensure_ascii=False), flush=True)
            continue
        print(query)
        for hit in hits:
            print(f"  {hit.score:.4f}  {hit.id:>8}  {hit.text}", flush=True)
