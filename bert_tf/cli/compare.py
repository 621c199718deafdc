"""Compares two runs of one task: scores with a paired bootstrap, and the examples whose answers changed.

    bert-tf compare out/base out/large --output_file=comparison.html

Both must be output directories of the same task, scored with --do_eval on the same file. See docs/compare.md.
"""

from bert_tf.cli.flags.comparison import COMPARE

FLAGS = COMPARE
TAKES_TEXTS = True  # the two runs

_ON_PAGE = 100  # times as many examples as in the text


def main(settings, runs):
    """Prints the comparison, and writes its page."""
    from bert_tf.experiments.comparison.page import lines, page
    from bert_tf.experiments.comparison.runs import compare
    from bert_tf.utils.files import write_text

    if len(runs) != 2:
        raise ValueError(f"Two runs must be named to be compared. Received {len(runs)}: {' '.join(runs) or 'none'}.")
    compared = compare(*runs, settings.samples, settings.seed)
    print("\n".join(lines(compared, *runs, settings.examples)))
    if settings.output_file:
        write_text(settings.output_file, page(compared, *runs, _ON_PAGE * settings.examples))
        print(f"\nThe page: {settings.output_file}")
