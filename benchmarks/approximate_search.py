"""How many of the ten nearest documents a graph finds, and how much faster it is than an exact search.

    python benchmarks/approximate_search.py [--count=100000] [--vector_dtypes int8] [--texts=WIKITEXT --model=MODEL]

The vectors are made up, around random centers. With --texts, which has train.raw.gz and valid.raw.gz, they are MODEL's
of the sentences of the training file, and the queries are sentences of the validation file. Prints a line for each type
of vector: the share of the ten nearest documents of an exact search that the graph finds, the processor time of each
for one query, that of the creation of the graph, and its size.
"""

import argparse
import gzip
import os
import pathlib
import tempfile
import time

import numpy as np

from bert_tf.evaluation.cosine_similarity import unit
from bert_tf.inference.index_segments import Segment, document_columns, write_segment
from bert_tf.inference.segment_graphs import GRAPH_FILE, SegmentGraph
from bert_tf.inference.vector_types import unit_vectors
from bert_tf.utils.names import VECTOR_DTYPES

QUERIES, TOP_K, PER_CENTER = 500, 10, 100
_BLOCK, _ALONE = 2**16, 20  # vectors compared at a time, and queries that are timed one by one
_SHORTEST = 20  # characters of a sentence


def made_up(count, width, spread, seed=0):
    """Returns `count` vectors around centers, `PER_CENTER` around each, and queries around the same centers."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(max(1, count // PER_CENTER), width)).astype(np.float32)
    near = centers[rng.integers(0, len(centers), count + QUERIES)]
    near += spread * rng.normal(size=near.shape).astype(np.float32)
    return near[:count], near[count:]


def sentences(path, count):
    """Returns `count` sentences of a file, in its order; headings begin with "="."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file if not line.strip().startswith("=")]
    found = [f"{each} ." for line in lines for each in line.removesuffix(" .").split(" . ") if len(each) >= _SHORTEST]
    return list(dict.fromkeys(found))[:count]


def nearest(segment, queries):
    """Returns the rows of the nearest documents of an exact search, int64 [q, TOP_K]."""
    scores = np.concatenate([queries @ unit_vectors(np.asarray(segment.vectors[start : start + _BLOCK])).T
                             for start in range(0, len(segment), _BLOCK)], 1)  # fmt: skip
    return np.argpartition(-scores, TOP_K, axis=1)[:, :TOP_K]


def seconds(call):
    """Returns the seconds of processor time that a call takes, and its result."""
    begin = time.process_time()
    result = call()
    return time.process_time() - begin, result


def measure(vectors, queries, dtype, folder):
    """Prints the line of a type of vector."""
    names = list(map(str, range(len(vectors))))
    write_segment(folder, document_columns(vectors, names, names, [{}] * len(names), dtype))
    segment, queries = Segment(folder), unit(queries)
    creation, graph = seconds(lambda: SegmentGraph(segment))
    proposed = graph.nearest(segment, queries, TOP_K)[1]
    shared = [len({*a} & {*b}) for a, b in zip(proposed.tolist(), nearest(segment, queries).tolist(), strict=True)]
    calls = {"exact": lambda row: nearest(segment, row), "approximate": lambda row: graph.nearest(segment, row, TOP_K)}
    alone = np.split(queries[:_ALONE], _ALONE)
    each = {name: seconds(lambda call=call: [call(row) for row in alone])[0] / _ALONE for name, call in calls.items()}
    size = os.path.getsize(os.path.join(folder, GRAPH_FILE)) / 1e6
    print(f"{dtype:8} {len(vectors):7} vectors  recall@{TOP_K} {np.mean(shared) / TOP_K:.4f}  "
          f"exact {1000 * each['exact']:.2f} ms  approximate {1000 * each['approximate']:.2f} ms  "
          f"creation {creation:.1f} s  graph {size:.0f} MB", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--spread", type=float, default=0.7, help="of made-up vectors around their centers")
    parser.add_argument("--vector_dtypes", nargs="+", choices=VECTOR_DTYPES, default=VECTOR_DTYPES)
    parser.add_argument("--texts", type=pathlib.Path)
    parser.add_argument("--model", help="with --texts: a sentence encoder")
    options = parser.parse_args()
    if options.texts:
        from bert_tf.inference.sentence_encoder import SentenceEncoder

        encoder, files = SentenceEncoder(options.model), (("train.raw.gz", options.count), ("valid.raw.gz", QUERIES))
        vectors, queries = (encoder(sentences(options.texts / name, count)) for name, count in files)
    else:
        vectors, queries = made_up(options.count, options.width, options.spread)
    for dtype in options.vector_dtypes:
        with tempfile.TemporaryDirectory() as folder:
            measure(vectors, queries, dtype, os.path.join(folder, "index"))


if __name__ == "__main__":
    main()
