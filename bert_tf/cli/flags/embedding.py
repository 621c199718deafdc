"""Flags of sentence embeddings: how a text becomes a vector, and where an index of vectors lies."""

from bert_tf.cli.flags.jobs import JOB
from bert_tf.utils import names
from bert_tf.utils.settings import Flag, with_attributes

VECTOR = (
    Flag("layers", None, "Whose features are pooled, by name; default: what the model's folder says, else last.",
         choices=names.LAYERS),  # fmt: skip
    Flag("pooling", None, "What one vector is made of; several with commas between them stand side by side; default: "
         "what the model's folder says, else mean.", "list", choices=names.POOLINGS),  # fmt: skip
    Flag("normalize", None, "Divide each vector by its length; default: what the model's folder says, else false.",
         "bool"),  # fmt: skip
)

_PROMPT = (
    Flag("prompt", None, "Put before every text; default: the model's own default prompt, if it has one."),
    Flag("prompt_name", None, "The same, by its name in the model's folder."),
)

EMBED = (
    Flag("model", None, "A sentence-transformers directory, what run_embedder left in --output_dir, or any encoder.",
         required=True),  # fmt: skip
    *with_attributes(JOB, "output_file", required=False),
    Flag("index_dir", None, "Instead of --output_file: make an index here, a new directory, for `bert-tf search`."),
    *VECTOR,
    *_PROMPT,
    Flag("max_seq_length", None, "Longest text in word pieces, special tokens included; default: what the model's "
         "folder says, else as many as the model has positions.", "integer", low=3),  # fmt: skip
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
)

SEARCH = (
    Flag("index_dir", None, "What `bert-tf embed --index_dir` made.", required=True),
    Flag("model", None, "The model that the index was made with; default: where it lay then."),
    Flag("top_k", 10, "Texts to answer with for each query.", "integer", low=1),
    *_PROMPT,
    Flag("json", False, "Answer in JSON, one object per line for each query.", "bool"),
)
