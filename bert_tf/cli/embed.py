"""Turns texts into vectors, and makes indexes of them for `bert-tf search`.

    bert-tf embed --model=all-MiniLM-L6-v2 --input_file=texts.txt --output_file=vectors.npz

A sentence-transformers directory needs no further flags: its modules, pooling, length and prompts are honoured.
All flags: --help; docs/embed.md.
"""

from absl import logging

from bert_tf.cli.common_flags import EMBED
from bert_tf.utils.settings import options_of

FLAGS = EMBED


def main(settings):
    """Writes the vectors of all texts, or an index of them."""
    from bert_tf.cli.jobs import run_job
    from bert_tf.inference.search import Embedder, Indexer, make_index
    from bert_tf.inference.sentence_encoder import EncodeOptions

    if bool(settings.output_file) == bool(settings.index_dir):
        received = "both" if settings.output_file else "neither"
        raise ValueError(f"Vectors must go to `output_file` or to `index_dir`. Received {received}; give one of them.")
    options = options_of(EncodeOptions, settings)
    make = Embedder if settings.output_file else Indexer
    maker = make(settings.model, options)
    if len(settings.text_column) != 1:
        received = ",".join(settings.text_column)
        raise ValueError(f"`text_column` must name one column here. Received: {received}; embed one by one.")
    if settings.output_file:
        run_job(settings, maker)
        return
    if settings.num_shards:
        raise ValueError(f"`num_shards` must come with `output_file`. Received: {settings.num_shards}; leave it out.")
    make_index(settings.index_dir, maker, lambda path: run_job(settings, maker, output_file=path))
    logging.info("Wrote the index %s.", settings.index_dir)
