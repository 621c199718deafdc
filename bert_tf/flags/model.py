"""Flags of models: where they come from, and where an export goes."""

from absl import flags


def define_model(max_seq_length=128):
    """Where the model comes from and what shape its input has."""
    flags.DEFINE_string("init_checkpoint", None, "Weights to start from: a Hugging Face, sentence-transformers or "
                        "bert_tf directory, or a TF1 checkpoint's prefix (.../bert_model.ckpt).")  # fmt: skip
    flags.DEFINE_string("bert_config_file", None, "The model's shape; default: the one beside --init_checkpoint.")
    flags.DEFINE_string("vocab_file", None, "The vocabulary; default: the one beside --init_checkpoint.")
    flags.DEFINE_bool("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.")
    flags.DEFINE_integer("max_seq_length", max_seq_length, "Longest row in word pieces, special tokens included.",
                         lower_bound=3)  # fmt: skip


def define_export(model=True):
    """Where an export goes; `model`: also from where it comes, for a program that does nothing else."""
    if model:
        flags.DEFINE_string("model", None, "A trained model: what a script left in its --output_dir.", required=True)
    else:
        flags.DEFINE_bool("do_export", False, "Export the trained model for TensorFlow Serving.")
    flags.DEFINE_string(
        "export_dir", None, "The model's directory as a server knows it; the export becomes its next version"
        + ("." if model else "; default: export in --output_dir."), required=model,
    )  # fmt: skip
    _define_export_dtype()


def define_fill_mask():
    """Which model fills in the blanks of which texts, and how the answers look."""
    flags.DEFINE_string("model", None, "A checkpoint with a masked-LM head: a Hugging Face directory, what "
                        "run_pretraining.py left in --output_dir, or a TF1 checkpoint's prefix.",
                        required=True)  # fmt: skip
    flags.DEFINE_string("vocab_file", None, "The vocabulary; default: the one beside the checkpoint.")
    flags.DEFINE_bool("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.")
    flags.DEFINE_integer("max_seq_length", None, "Longest text in word pieces, special tokens included; default: as "
                         "many as the model has positions.", lower_bound=3)  # fmt: skip
    flags.DEFINE_string("input_file", None, "Texts, one a line, also packed (.gz). Default: the arguments, else "
                        "standard input.")  # fmt: skip
    flags.DEFINE_integer("top_k", 5, "Tokens to answer with for each [MASK].", lower_bound=1)
    flags.DEFINE_bool("json", False, "Answer in JSON, one object a line for each [MASK].")
    flags.DEFINE_string("export_dir", None, "Instead of answering: write the model as a SavedModel, the next version "
                        "below this directory.")  # fmt: skip
    _define_export_dtype()


def _define_export_dtype():
    flags.DEFINE_enum("export_dtype", "float32", ("float32", "bfloat16"), "Of weights and computation in the export.")
