"""The scores in a model card: those of each evaluated file, in all and by label."""

from bert_tf.export.markdown import format_rows, format_section
from bert_tf.export.run_facts import RunFacts, is_computed_in
from bert_tf.training.scored_files import FileScores
from bert_tf.utils.files import file_names

_MOST_LABELS = 1000
_BY_LABEL = ("label", "examples", "predicted", "precision", "recall", "F1")


def format_scores(facts: RunFacts, dtype: str, note: str = "") -> str:
    """Returns the section, with a table and notes for each evaluated file; "" if nothing was evaluated.

    Args:
        facts: about the run.
        dtype: data type of the export.
        note: what the metrics mean.
    """
    files = [note] * bool(note and facts.evaluations)
    files += [_format_file(each, facts, dtype) for each in facts.evaluations]
    return format_section("Scores", "\n\n".join(files)) if files else ""


def _format_file(evaluation, facts, dtype):
    data = evaluation.evaluated.data.values()
    heading = ", ".join(f"{file_names(each['file'])}, {each['rows']:,} rows" for each in data)
    rows = [(_marked(name, evaluation), value) for name, value in evaluation.scores.items()]
    if not evaluation.suffix:
        rows += [(f"{name}, in {dtype} as exported", value) for name, value in facts.export_scores.items()]
        rows += [(f"{name}, in {dtype} by LiteRT", value) for name, value in facts.litert_scores.items()]
    parts = [f"### {heading or 'Examples that were not recorded'}", format_rows(("", ""), rows)]
    parts += [_format_labels(suffix, labels) for suffix, labels in evaluation.evaluated.labels.items() if labels]
    return "\n\n".join([*parts, " ".join(_notes(evaluation, facts, dtype))])


def _marked(name, evaluation):
    return f"{name} (fitted)" if name in evaluation.evaluated.fitted else name


def _format_labels(suffix, labels):
    rows = [(label, f"{each.examples:,}", f"{each.predicted:,}", *(f"{rate:.4f}" for rate in _rates(each)))
            for label, each in list(labels.items())[:_MOST_LABELS]]  # fmt: skip
    header = (f"label{suffix.replace('_', ', ')}", *_BY_LABEL[1:])
    more = f"\n\nThe other {len(labels) - len(rows):,} labels are left out." if len(labels) > len(rows) else ""
    return format_rows(header, rows) + more


def _rates(result):
    return result.precision, result.recall, result.f1


def _notes(evaluation: FileScores, facts, dtype):
    if facts.step != evaluation.step:
        yield f"These are the metrics of step {evaluation.step}, not of the exported weights."
    if evaluation.evaluated.fitted:
        yield (
            "Metrics marked *fitted* use values, such as a threshold, that were fitted to these examples. Expect lower "
            "scores on new texts."
        )
    if facts.is_chosen_by(evaluation):
        yield f"The checkpoint was chosen by `{facts.flags['metric_for_best_model']}` on these examples."
    yield _describe_precision(evaluation, facts, dtype)


def _describe_precision(evaluation, facts, dtype):
    """Describes the precision of the evaluation, and how it relates to the export's."""
    if evaluation.precision is None:
        return "The precision of the evaluation was not recorded."
    if is_computed_in(evaluation.precision, dtype):
        return f"The metrics were computed in {dtype}, the precision of this export."
    own = "" if facts.export_scores and not evaluation.suffix else " Its own metrics were not measured."
    return f"The metrics were computed in {evaluation.precision}; this export is in {dtype}.{own}"
