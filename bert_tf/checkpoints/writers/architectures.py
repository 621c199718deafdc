"""Which class of Transformers has the heads of a model, and so which weights its file may hold."""

import dataclasses
import re
from collections.abc import Iterable

POOLER = "bert/pooler/dense/"
_TRANSFORM = "classifier/dense/kernel"
_HEADS = (
    "classifier", "cls/predictions", "cls/replaced_tokens", "cls/seq_relationship", "cls/squad", "recurrent", "tagger",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Architecture:
    """One kind of class.

    Attributes:
        ending: of its name, behind the family's own: BertForMaskedLM.
        heads: how the paths of its heads begin.
        reads_pooler: it has a pooler, where the family has one.
        own_names: (how the table's name begins, how the class has it), where its head is called otherwise.
    """

    ending: str
    heads: tuple[str, ...]
    reads_pooler: bool = False
    own_names: tuple[tuple[str, str], ...] = ()

    def name(self, theirs: str) -> str:
        """Returns what the class calls a weight that the table of names calls `theirs`."""
        for old, new in self.own_names:
            if theirs.startswith(old):
                return new + theirs.removeprefix(old)
        return theirs

    def holds(self, path: str, paths: Iterable[str]) -> bool:
        """Says whether the class has the weight at our `path`, in a model of these `paths`."""
        if path.startswith(POOLER):
            return self.reads_pooler and _TRANSFORM not in paths
        return path.startswith(("bert/", *(f"{head}/" for head in self.heads)))


# ElectraForMultipleChoice's layer before the last one.
_SUMMARY = (("classifier.dense.", "sequence_summary.summary."), ("classifier.out_proj.", "classifier."))

# In the order in which they are taken where a model says nothing: a text's label comes before that of each piece.
ARCHITECTURES = (
    Architecture("Model", (), True),
    Architecture("ForPreTraining", ("cls/predictions", "cls/seq_relationship"), True),
    Architecture("ForPreTraining", ("cls/replaced_tokens",)),
    Architecture("ForMaskedLM", ("cls/predictions",)),
    Architecture("LMHeadModel", ("cls/predictions",)),
    Architecture("ForCausalLM", ("cls/predictions",)),
    Architecture("ForNextSentencePrediction", ("cls/seq_relationship",), True),
    Architecture("ForSequenceClassification", ("classifier",), True),
    Architecture("ForTokenClassification", ("classifier",)),
    Architecture("ForMultipleChoice", ("classifier",), True, _SUMMARY),
    Architecture("ForQuestionAnswering", ("cls/squad",)),
)


def architecture_of(paths: Iterable[str], names: Iterable[str] = ()) -> Architecture:
    """Returns the class for a model.

    Args:
        paths: ours, of its weights.
        names: of classes, such as "BertForTokenClassification" or "ForTokenClassification": the first of them that has
            the model's heads is taken. Weights do not tell a text's classifier from that of each piece.

    Raises:
        ValueError: no class has all of its heads.
    """
    there = heads_in(paths)
    fitting = [each for each in ARCHITECTURES if set(each.heads) == there]
    if not fitting:
        raise ValueError(
            f"The heads of a model must be those of one class: {_classes()}. Received {' and '.join(sorted(there))}; "
            "say which shall stay behind with `leave_out`, such as `leave_out=cls/.*`."
        )
    named = (each for name in names for each in fitting if name.endswith(each.ending))
    return next(named, fitting[0])


def heads_in(paths: Iterable[str]) -> set[str]:
    """Returns how the paths of the heads begin that a model has."""
    return {head for path in paths for head in _HEADS if re.match(f"{head}/", path)}


def _classes():
    return ", ".join(f"{each.ending} ({' and '.join(each.heads) or 'no head'})" for each in ARCHITECTURES)
