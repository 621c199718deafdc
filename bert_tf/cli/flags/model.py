"""Flags of models: where they come from, and where an export goes."""

from bert_tf.utils import names
from bert_tf.utils.settings import Flag

MODEL = (
    Flag("init_checkpoint", None, "Weights to start from: a Hugging Face, sentence-transformers or bert_tf directory, "
         "or a TF1 checkpoint's prefix (.../bert_model.ckpt)."),  # fmt: skip
    Flag("bert_config_file", None, "The model's shape; default: the one beside --init_checkpoint."),
    Flag("vocab_file", None, "The vocabulary; default: the one beside --init_checkpoint."),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
    Flag("max_seq_length", 128, "Longest row in word pieces, special tokens included.", "integer", low=3),
)

_EXPORT_FORM = (
    Flag("export_dtype", "float32", "Of weights and computation in the export; int8 is that of the encoder's matrix "
         "products, for processors; for litert, float16 and int8 are those of the weights.",
         choices=names.EXPORT_DTYPES),
    Flag("export_for", names.EXPORTS_FOR[0], "Where it will be served: cpu is faster there; in bfloat16, where it "
         "gains most, the weights become constants of the graph and load more slowly; litert: a "
         ".tflite file for phones and small devices, in place of a SavedModel.", choices=names.EXPORTS_FOR),
)  # fmt: skip

_CALIBRATION_FILE = Flag(
    "calibration_file", None, "With --export_dtype=int8 and --export_for=cpu: texts that set the ranges of integers, "
    "which is faster than to find them anew in each request; one example in a line, a tab between its texts; 512 at "
    "most are read.",
)  # fmt: skip

_EXPORT_EXPLANATIONS = Flag(
    "export_explanations", [], "Signatures by which the export explains itself, with a comma between them: attention, "
    "what each piece of a text looks at; attributions, which pieces speak for an answer.", "list",
    choices=names.EXPLANATIONS,
)  # fmt: skip

EXPORT = (
    Flag("do_export", False, "Export the trained model for TensorFlow Serving.", "bool"),
    Flag("export_dir", None, "The model's directory as a server knows it; the export becomes its next version; "
         "default: export in --output_dir, or litert there with --export_for=litert."),  # fmt: skip
    *_EXPORT_FORM,
    Flag("int8_tolerance", 0.01, "With --export_dtype=int8 and --do_eval: by what share of itself a score may be lower "
         "in int8; beyond it nothing is exported.", "float", low=0.0, high=1.0),
    _CALIBRATION_FILE,
    _EXPORT_EXPLANATIONS,
)

EXPORT_ALONE = (
    Flag("model", None, "A trained model: what run_classifier or another program left in --output_dir; or a "
         "sentence-transformers directory, to serve its vectors.", required=True),  # fmt: skip
    Flag("export_dir", None, "The model's directory as a server knows it; the export becomes its next version.",
         required=True),  # fmt: skip
    *_EXPORT_FORM,
    _CALIBRATION_FILE,
    _EXPORT_EXPLANATIONS,
)

FILL_MASK = (
    Flag("model", None, "A checkpoint with a masked-LM head: a Hugging Face directory, what run_pretraining left in "
         "--output_dir, or a TF1 checkpoint's prefix.", required=True),  # fmt: skip
    Flag("vocab_file", None, "The vocabulary; default: the one beside the checkpoint."),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
    Flag("max_seq_length", None, "Longest text in word pieces, special tokens included; default: as many as the model "
         "has positions.", "integer", low=3),  # fmt: skip
    Flag("input_file", None, "Texts, one per line, also packed (.gz). Default: the arguments, else standard input."),
    Flag("top_k", 5, "Tokens to answer with for each [MASK].", "integer", low=1),
    Flag("json", False, "Answer in JSON, one object per line for each [MASK].", "bool"),
    Flag("export_dir", None, "Instead of answering: write the model as a SavedModel, the next version below this "
         "directory."),  # fmt: skip
    *_EXPORT_FORM,
)
