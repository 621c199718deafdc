"""Turns texts into vectors, and makes indexes of them for `bert-tf search`.

    bert-tf embed --model=all-MiniLM-L6-v2 --input_file=texts.txt --output_file=vectors.npz

A sentence-transformers directory needs no further flags: its modules, pooling, length and prompts are honoured.
All flags: --help; docs/embed.md.
"""

import dataclasses

from bert_tf.flags.embedding import EMBED

FLAGS = EMBED


def main(settings):
    """Writes the vectors of all texts, or an index of them."""
    from bert_tf.inference.embedding import Embedder, Indexer, make_index
    from bert_tf.inference.sentence_encoder import Options
    from bert_tf.jobs.table_job import TableJob, run

    if bool(settings.output_file) == bool(settings.index_dir):
        received = "both" if settings.output_file else "neither"
        raise ValueError(f"Vectors must go to `output_file` or to `index_dir`. Received {received}; give one of them.")
    options = Options(**{field.name: settings.get(field.name) for field in dataclasses.fields(Options)})
    make = Embedder if settings.output_file else Indexer
    maker = make(settings.model, options)
    columns = tuple(settings.text_column)
    if len(columns) != 1:
        raise ValueError(f"`text_column` must name one column here. Received: {','.join(columns)}; embed one by one.")

    def write(path):
        run(TableJob(settings.input_file, path, maker, columns, settings.header))

    if settings.output_file:
        write(settings.output_file)
    else:
        make_index(settings.index_dir, maker, write)
