"""The Transformers class with the heads of a model, which determines the weights in its file."""

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
    """A kind of Transformers class.

    Attributes:
        ending: suffix of its name, after the family's: BertForMaskedLM.
        heads: path prefixes of its heads.
        reads_pooler: whether it has a pooler, if the family has one.
        own_names: (prefix in the table, prefix in the class), if its head is named differently.
    """

    ending: str
    heads: tuple[str, ...]
    reads_pooler: bool = False
    own_names: tuple[tuple[str, str], ...] = ()

    def name(self, theirs: str) -> str:
        """Returns the class's name of a weight that is called `theirs` in the name table."""
        for old, new in self.own_names:
            if theirs.startswith(old):
                return new + theirs.removeprefix(old)
        return theirs

    def holds(self, path: str, paths: Iterable[str]) -> bool:
        """Returns whether the class has the weight at our `path`, in a model with these `paths`."""
        if path.startswith(POOLER):
            return self.reads_pooler and _TRANSFORM not in paths
        return path.startswith(("bert/", *(f"{head}/" for head in self.heads)))


# ElectraForMultipleChoice's layer before the last one.
_SUMMARY = (("classifier.dense.", "sequence_summary.summary."), ("classifier.out_proj.", "classifier."))

# In the order used if a model does not state its class: text classification precedes token classification.
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
    """Returns the Transformers class for a model.

    Args:
        paths: our paths of its weights.
        names: class names, such as "BertForTokenClassification" or "ForTokenClassification": the first one with the
            model's heads is used. Weights do not distinguish text classifiers from token classifiers.

    Raises:
        ValueError: no class has all of its heads.
    """
    there = heads_in(paths)
    fitting = [each for each in ARCHITECTURES if set(each.heads) == there]
    if not fitting:
        raise ValueError(
            f"The heads of a model must belong to one class: {_classes()}; got {' and '.join(sorted(there))}; "
            "drop some of them with `leave_out`, such as `leave_out=cls/.*`."
        )
    named = (each for name in names for each in fitting if name.endswith(each.ending))
    return next(named, fitting[0])


def heads_in(paths: Iterable[str]) -> set[str]:
    """Returns the path prefixes of a model's heads."""
    return {head for path in paths for head in _HEADS if re.match(f"{head}/", path)}


def _classes():
    return ", ".join(f"{each.ending} ({' and '.join(each.heads) or 'no head'})" for each in ARCHITECTURES)
