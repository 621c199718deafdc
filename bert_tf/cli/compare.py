"""Compare two runs of one task, with significance tests.

    bert-tf compare out/base out/large --output_file=comparison.html

Compares metrics with a paired bootstrap and lists the examples whose
predictions changed. Both arguments are output directories of the same task,
evaluated with --do_eval on the same file. If two classifiers have different
labels, only examples of the labels that both have are compared.
"""

import dataclasses
from typing import ClassVar

from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class CompareSettings(UserSettings):
    """Options for comparing two runs."""

    GROUP: ClassVar[str] = "Output"

    output_file: str | None = option(None, "HTML page (.html) to write with the same comparison.", essential=True)
    examples: int = option(
        10,
        "Number of changed examples to show in each direction; the page lists 100 times as many.",
        low=0,
    )
    samples: int = option(10_000, "Number of bootstrap samples.", low=1, group="Evaluation")
    seed: int = option(
        0,
        "Random seed of the bootstrap; the same seed gives the same numbers.",
        low=0, group="Evaluation",
    )


SETTINGS = CompareSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True  # the two runs

_ON_PAGE = 100  # times as many examples as in the text


def main(settings: CompareSettings, runs):
    """Prints the comparison, and writes its page."""
    from bert_tf.experiments.comparison import compare_runs
    from bert_tf.experiments.comparison_page import build_comparison_page, comparison_lines
    from bert_tf.utils.files import write_text

    if len(runs) != 2:
        raise ValueError(f"Two run directories are required; got {len(runs)}: {' '.join(runs) or 'none'}.")
    compared = compare_runs(*runs, settings.samples, settings.seed)
    print("\n".join(comparison_lines(compared, *runs, settings.examples)))
    if settings.output_file:
        write_text(settings.output_file, build_comparison_page(compared, *runs, _ON_PAGE * settings.examples))
        print(f"\nReport: {settings.output_file}")
