"""Predict masked tokens with a pretrained model.

    bert-tf fill_mask --model=uncased_L-12_H-768_A-12 \\
        "The man went to the [MASK] ."

Texts are arguments, or lines of --input_file or of standard input. With
--export_dir, exports the model as a SavedModel instead, which makes the same
predictions.
"""

from absl import logging

from bert_tf.cli.common_flags import EXPORT_FORM
from bert_tf.cli.options_from_flags import make_export_options
from bert_tf.utils.json_files import json_text
from bert_tf.utils.settings import Flag

FLAGS = (
    Flag("model", None, "A checkpoint with a masked-LM head: a Hugging Face directory, what run_pretraining left in "
         "--output_dir, or a TF1 checkpoint's prefix.", required=True),
    Flag("vocab_file", None, "The vocabulary; default: the one beside the checkpoint."),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
    Flag("max_seq_length", None, "Longest text in tokens, special tokens included; default: as many as the model "
         "has positions.", "integer", low=3),
    Flag("input_file", None, "Texts, one per line, also packed (.gz). Default: the arguments, else standard input."),
    Flag("top_k", 5, "Tokens to answer with for each [MASK].", "integer", low=1),
    Flag("json", False, "Answer in JSON, one object per line for each [MASK].", "bool"),
    Flag("export_dir", None, "Instead of answering: write the model as a SavedModel, the next version below this "
         "directory."),
    *EXPORT_FORM,
)  # fmt: skip
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
