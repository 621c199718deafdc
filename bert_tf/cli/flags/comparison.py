"""Flags of a comparison of two runs."""

from bert_tf.utils.settings import Flag

COMPARE = (
    Flag("output_file", None, "Write a page (.html) with the same, too."),
    Flag("examples", 10, "Changed examples that are shown in each direction; the page shows a hundred times as many.",
         "integer", low=0),  # fmt: skip
    Flag("samples", 10_000, "Draws of the bootstrap.", "integer", low=1),
    Flag("seed", 0, "Of the draws: the same seed gives the same numbers.", "integer", low=0),
)
