"""What embeddings lose in int8, in one bit per dimension, and with fewer dimensions.

    python benchmarks/quantized_embeddings.py MODEL STS-B [--dims=384,256,128,64]

MODEL is a sentence encoder and STS-B the directory of the GLUE task. For each type and number of dimensions: Spearman's
correlation of cosines and scores on the dev set, both texts in that type, and the share of pairs with a score of 4 or
more whose first text, in float32, finds the second one among all second texts, in that type.
"""

import argparse

import numpy as np

from bert_tf.data import glue
from bert_tf.evaluation.cosine_similarity import unit
from bert_tf.evaluation.metrics import spearman
from bert_tf.evaluation.retrieval import ranks, retrieval
from bert_tf.inference.sentence_encoder import SentenceEncoder
from bert_tf.inference.vector_types import quantize_vectors, unit_vectors
from bert_tf.utils.names import VECTOR_DTYPES


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("glue", help="the directory of STS-B")
    parser.add_argument("--dims", default="")
    options = parser.parse_args()
    read = glue.read_split(options.glue, "STS-B", "dev")
    encoder, scores = SentenceEncoder(options.model), np.array(read.labels)
    first, second = encoder(read.text_a), encoder(read.text_b)
    matching = np.flatnonzero(scores >= 4)
    order = np.concatenate([matching, np.flatnonzero(scores < 4)])
    print(f"{len(scores)} pairs, {len(matching)} of a score of 4 or more")
    print("dimensions  type     bytes  spearman  recall@1  recall@10")
    for dim in map(int, options.dims.split(",")) if options.dims else [encoder.width]:
        for dtype in VECTOR_DTYPES:
            stored = [quantize_vectors(unit(each[:, :dim]), dtype) for each in (first, second)]
            one, other = map(unit_vectors, stored)
            found = retrieval(ranks(first[matching, :dim], other[order]))
            print(f"{dim:10}  {dtype:8} {stored[0][0].nbytes:5}  {spearman(scores, (one * other).sum(-1)):8.4f}  "
                  f"{found['recall_at_1']:8.4f}  {found['recall_at_10']:9.4f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
