"""A small index for the tests of this folder, its texts and their vectors."""

from bert_tf.inference.batch_prediction.table_job import TableJob, run_table_job
from bert_tf.inference.document_index import make_index
from bert_tf.inference.embedders import Indexer
from bert_tf.inference.settings import EncodeOptions
from tests import tiny

TEXTS = ["good film", "", "a warm story of people — 音楽", "good film", "it is dull , cold and empty ."]


def index_of(model, folder, texts=TEXTS, **options):
    path = folder / "texts.jsonl"
    tiny.write_jsonl(path, [(text, f"page {n}") for n, text in enumerate(texts)], ["text", "from"])
    maker = Indexer(model, EncodeOptions(**options))

    def write_rows(file):
        run_table_job(TableJob(str(path), file, maker, keep_columns=("from",)))

    make_index(str(folder / "index"), maker, write_rows)
    return folder / "index"


def vectors_of(model):
    """Returns the texts' vectors, and those of two queries."""
    found = Indexer(model, EncodeOptions(pooling="max")).encoder()([*TEXTS, "a film", "good film"])
    return found[:-2], found[-2:]
