"""Flags of the page that shows the inside of a model."""

from bert_tf.utils.settings import Flag

SEE = (
    Flag("model", None, "The model: a Hugging Face, sentence-transformers, KerasHub or bert_tf directory, or a TF1 "
         "checkpoint's prefix.", required=True),  # fmt: skip
    Flag("output", None, "The page, a file of HTML.", required=True),
    Flag("views", [], "Which views the page has, with commas between them; default: all that the model can have.",
         "list",
         choices=("heads", "model", "neurons", "inputs", "masked_words", "layers", "attribution")),  # fmt: skip
    Flag("layers", [], "Whose attention is shown: numbers of layers from 0, with commas between them, -1 the last; "
         "default: all.", "list"),  # fmt: skip
    Flag("target", None, "Whose score the view attribution explains: a label; for a tagger a word's place from 0, or "
         "that and a tag, 3:B-PER; for an answer its text, or 10:14. Default: what the model says."),  # fmt: skip
    Flag("top_k", 5, "How many pieces the view masked_words has for each place.", "integer", low=1),
)
