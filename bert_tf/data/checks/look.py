"""All checks of the files of a run."""

from collections.abc import Mapping

from bert_tf.data.checks import labels, lengths, raw, texts
from bert_tf.data.checks.findings import Finding
from bert_tf.data.checks.left_out import left_out
from bert_tf.data.checks.samples import Sample
from bert_tf.data.cut import Cut


def look(samples: Mapping[str, Sample]) -> list[Finding]:
    """Returns what is probably a mistake in the files of a run, those to train on first.

    It costs a few percent of what laying the examples out in rows does, and grows with the number of examples alone.

    Args:
        samples: split -> its examples; splits are "train", and what begins with "dev" or "test".
    """
    found, train = [], samples.get("train")
    for split, sample in samples.items():
        found += raw.as_it_lies(sample)
        found += left_out(sample)
        found += texts.empty(sample)
        if split == "train":
            found += labels.of_training(sample)
        if not split.startswith("test"):
            found += texts.repeated(sample)
        if split.startswith("dev") and train:
            found += labels.of_evaluation(sample, train) if train.labels is not None else []
            found += texts.overlap(train, sample)
    return found


def look_at_rows(
    samples: Mapping[str, Sample], cuts: Mapping[str, Cut | None], has_windows_to_offer: bool = False
) -> list[Finding]:
    """Returns what was cut off when the examples were laid out in rows.

    Args:
        samples: as in `look`.
        cuts: split -> what its rows lack.
        has_windows_to_offer: as in `lengths.cut_texts`.
    """
    several = ((samples[split], cut) for split, cut in cuts.items() if split in samples)
    return [finding for sample, cut in several for finding in lengths.cut_texts(sample, cut, has_windows_to_offer)]
