"""Files of examples as `data check` shows them: how many, which labels, how long, and what was found."""

import collections
import dataclasses

from bert_tf.checkpoints.loading import load_description
from bert_tf.data.example_checks import check_samples
from bert_tf.data.findings import DataFinding
from bert_tf.data.label_checks import UNKNOWN, count_labels
from bert_tf.data.token_checks import Lengths, check_truncation, check_unknown_tokens
from bert_tf.runs.data_checks import lint_samples
from bert_tf.runs.encoded_splits import encode_splits
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.tasks.base import FineTuningTask
from bert_tf.tasks.options import ACTIONS
from bert_tf.utils.counts import number_of
from bert_tf.utils.settings import options_of

_LABELS = 20  # shown


@dataclasses.dataclass(frozen=True)
class FileOverview:
    """One file.

    Attributes:
        split: such as "train".
        path: the file.
        examples: how many.
        labels: name -> how many examples have it; {} where labels are no names.
        lengths: in tokens; None where they were not counted.
        limit: what they must not exceed, such as "max_seq_length=128".
    """

    split: str
    path: str
    examples: int
    labels: dict[str, int]
    lengths: Lengths | None
    limit: str | None

    def __str__(self):
        lines = [f"{self.path} ({self.split}): {number_of(self.examples, 'example')}"]
        if self.labels:
            most = collections.Counter(self.labels).most_common(_LABELS)
            shown = ", ".join(f"{name!r:.40} {count:,}" for name, count in most)
            more = ", ..." if len(self.labels) > _LABELS else ""
            lines.append(f"  {number_of(len(self.labels), 'label')}: {shown}{more}")
        if self.lengths:
            half, most, longest = dataclasses.astuple(self.lengths)
            lines.append(f"  lengths: median {half:,}, 95% up to {most:,}, maximum {longest:,}; `{self.limit}`")
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Overview:
    """All files of a run, and what was found in them."""

    files: list[FileOverview]
    findings: list[DataFinding]

    def __str__(self):
        lines = []
        for file in self.files:
            lines.append(str(file))
            own = [finding for finding in self.findings if finding.path == file.path]
            own.sort(key=lambda finding: not finding.is_warning)
            for each in own:
                level = "WARNING" if each.is_warning else "note"
                lines.append(f"  {level:<9}{each.kind:<17}{each.text_with('`json`')}")
        warnings = sum(finding.is_warning for finding in self.findings)
        return "\n".join([*lines, f"Warnings: {warnings}. Notes: {len(self.findings) - warnings}."])

    def to_dict(self) -> dict:
        """Returns all of it as JSON values."""
        return {name: list(map(dataclasses.asdict, each)) for name, each in vars(self).items()}


def look_at_files(kind: type[FineTuningTask], settings: FineTuningSettings) -> Overview:
    """Reads and examines the files that the settings of a fine-tuning program name.

    Tokens are counted if there are a model to tokenize with and examples to train on.

    Args:
        kind: the task.
        settings: settings of its fine-tuning, with the files.

    Raises:
        ValueError: a file cannot be read with the settings.
    """
    options = dataclasses.replace(options_of(type(kind.options), settings), skip_bad_rows=True)
    wanted = {"train": settings.do_train, "dev": settings.do_eval, "test": settings.do_predict}
    data = kind.read_data(options, [split for split in ACTIONS if wanted.get(split, settings.test_file)], None)
    samples = lint_samples(kind, data, options)
    findings = check_samples(samples)
    broken = {finding.path for finding in findings if finding.kind == UNKNOWN}
    splits = [split for split, each in data.examples.items() if each.path not in broken]
    cuts, counts = _cuts(kind, data, options, settings, splits)
    findings += check_truncation(samples, cuts, getattr(settings, "long_text", "window") != "window")
    findings += check_unknown_tokens(samples, counts)
    files = [_overview(split, each, samples.get(split), cuts.get(split)) for split, each in data.examples.items()]
    return Overview(files, findings)


def _cuts(kind, data, options, settings, splits):
    """Returns split -> what its rows lack, and split -> the counts of its tokens, if there is a model to count by."""
    described = settings.init_checkpoint or (settings.bert_config_file and settings.vocab_file)
    if not described or "train" not in data.examples:
        return {}, {}
    model = load_description(
        [settings.init_checkpoint], settings.bert_config_file, settings.vocab_file, settings.do_lower_case
    )
    length = settings.max_seq_length
    model.check_length(length)
    made, examples = kind.create(model, data, options, None), {split: data.examples[split] for split in splits}
    rows, counts = encode_splits(made, model.tokenizer, examples, length)
    return {split: getattr(each, "truncation", None) for split, each in rows.items()}, counts


def _overview(split, examples, sample, cut):
    """Returns the row of a file; without a sample, which a task may lack, it has no labels."""
    lengths, limit = (Lengths.of(cut.needed), f"{cut.parameter}={cut.limit}") if cut else (None, None)
    if sample is None:
        return FileOverview(split, examples.path, len(examples), {}, lengths, limit)
    return FileOverview(split, sample.path, len(sample), count_labels(sample), lengths, limit)
