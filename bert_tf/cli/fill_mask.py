"""Fills in the blank: what a pretrained model puts where a text says [MASK].

    bert-tf fill_mask --model=uncased_L-12_H-768_A-12 "The man went to the [MASK] ."

Texts come as arguments, from --input_file or from standard input, one per line. With --export_dir the model is written
as a SavedModel that answers the same way.
"""

from absl import logging

from bert_tf.cli.common_flags import FILL_MASK, make_export_options
from bert_tf.utils.json_files import json_text

FLAGS = FILL_MASK
TAKES_TEXTS = True


def main(settings, texts):
    """Prints an answer for each [MASK], or exports the model."""
    from bert_tf.export.export_options import DEFAULT
    from bert_tf.inference.fill_mask import Filler, format_answer, read_masked_texts

    exports = settings.export_dir is not None
    if exports and (texts or settings.input_file):
        raise ValueError("--export_dir must come without texts. Received both; ask in a run of its own.")
    tokenizing = settings.vocab_file, settings.do_lower_case, settings.max_seq_length
    form = make_export_options(settings) if exports else DEFAULT
    if exports:
        form.check_folder(settings.export_dir)  # before the model is read
    filler = Filler(settings.model, settings.top_k, *tokenizing, form.variable_dtype)
    if exports:
        logging.info("Exported %s as %s", settings.model, filler.export(settings.export_dir, form))
        return
    mask = filler.reader.mask
    for answer in filler(read_masked_texts(texts, settings.input_file, mask)):
        print(json_text(answer, ensure_ascii=False) if settings.json else format_answer(answer, mask), flush=True)
