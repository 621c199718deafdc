"""Visualize attention, neurons, layers and attributions as an HTML page.

    bert-tf see --model=uncased_L-12_H-768_A-12 --output=page.html \\
        "The cat sat on the mat."
    bert-tf see --model=reader --output=page.html \\
        "Who sat?" "The cat sat on the mat."

Takes one text, or a text pair. The page is a single file that opens offline in
any browser.
"""

from absl import logging

from bert_tf.utils.settings import Flag

FLAGS = (
    Flag("model", None, "The model: a Hugging Face, sentence-transformers, KerasHub or bert_tf directory, or a TF1 "
         "checkpoint's prefix.", required=True),  # fmt: skip
    Flag("output", None, "The page, a file of HTML.", required=True),
    Flag("views", [], "Which views the page has, with commas between them; default: all that the model can have.",
         "list",
         choices=("heads", "model", "neurons", "inputs", "masked_words", "layers", "attribution")),  # fmt: skip
    Flag("layers", [], "Whose attention is shown: numbers of layers from 0, with commas between them, -1 the last; "
         "default: all.", "list"),  # fmt: skip
    Flag("target", None, "Whose score the view attribution explains: a label; for a tagger a word's index from 0, or "
         "that and a tag, 3:B-PER; for an answer its text, or 10:14. Default: what the model says."),  # fmt: skip
    Flag("top_k", 5, "How many tokens the view masked_words has for each position.", "integer", low=1),
)
TAKES_TEXTS = True


def main(settings, texts):
    """Writes the page."""
    from bert_tf.checkpoints.loading import load
    from bert_tf.interpret.page import see
    from bert_tf.utils.files import write_text

    if "top_k" in settings.given and settings.views and "masked_words" not in settings.views:
        raise ValueError("--top_k must come with the view masked_words. Received others; add it, or leave --top_k out.")
    layers = _layers(settings.layers)
    texts = [text.encode("utf-8", "surrogateescape").decode("utf-8", "ignore") for text in texts]
    seen = see(
        load(settings.model), *texts, views=settings.views or None, layers=layers, target=settings.target,
        top_k=settings.top_k,
    )  # fmt: skip
    write_text(settings.output, seen.page)
    logging.info("Wrote %s, %.1f MB: open it in a browser.", settings.output, len(seen.page) / 1e6)


def _layers(words):
    """Returns numbers of layers, or None for all."""
    if not words:
        return None
    try:
        return [int(word) for word in words]
    except ValueError as error:
        raise ValueError(
            f"--layers must be numbers with commas between them. Received: {','.join(words)}; correct it."
        ) from error
