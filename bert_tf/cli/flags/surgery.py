"""Flags of surgery on trained models."""

from bert_tf.utils.settings import Flag

SURGERY = (
    Flag("model", None, "The model: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 checkpoint's "
         "prefix.", required=True),  # fmt: skip
    Flag("output_dir", None, "Where the new model goes: a directory that does not exist yet, or is empty.",
         required=True),  # fmt: skip
    Flag("average", [], "Take the mean of --model and of these models, which must have its shape and its vocabulary.",
         "list"),  # fmt: skip
    Flag("adapter", None, "Merge the adapters (LoRA) in this directory: adapter/ in the --output_dir of a run with "
         "--lora_rank, or PEFT's."),  # fmt: skip
    Flag("prune_heads", None, "Take attention heads out: layer:head,head;layer:head, as in 0:1,3;2:0. Numbers are "
         "those of --model and start from 0."),  # fmt: skip
    Flag("layers", [], "Keep these layers and no others, as in 0,2,4; the lowest is 0.", "list"),
    Flag("max_position_embeddings", None, "Rows of the position table: more are copies of the old ones, fewer are the "
         "first.", "integer", low=1, high=2**20),  # fmt: skip
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
)
