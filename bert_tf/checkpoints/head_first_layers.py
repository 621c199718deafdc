"""The first layers of heads, with which a new head starts from a masked-LM head.

With `EncoderConfig.head_norm`, every head begins with the same two layers, and a new head starts from those of the
masked-LM head. In Transformers' files, they have the same names in all classes, so any class can load them.
"""

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any

from absl import logging

MASKED_LM_LAYERS = "cls/predictions/transform"
WITH_FIRST_LAYERS = ("classifier", "cls/squad")  # the heads that begin with them


def first_layers(names: Iterable[str]) -> dict[str, str]:
    """Returns {path of a head's weight: path of the masked-LM head's weight that it starts from}.

    Args:
        names: our paths of a checkpoint's weights. Without a masked-LM head among them, the result is empty.
    """
    layers = [name for name in names if name.startswith(f"{MASKED_LM_LAYERS}/")]
    return {name.replace(MASKED_LM_LAYERS, head): name for head in WITH_FIRST_LAYERS for name in layers}


@dataclasses.dataclass(frozen=True)
class _Started:
    """A head's variable under the name of the masked-LM head's weight that it starts from; see `assign_weights`."""

    variable: Any
    path: str

    @property
    def shape(self):
        return self.variable.shape

    def assign(self, array):
        self.variable.assign(array)


def started_from_masked_lm(variables: Iterable, names: Collection[str], config: Any) -> list:
    """Returns the variables to assign from a checkpoint, of which a new head's are to start from a masked-LM head.

    Args:
        variables: Keras variables of a model, for `assign_weights`.
        names: our paths of the checkpoint's weights.
        config: the model's `EncoderConfig`.
    """
    variables, sources = [*variables], first_layers(names) if config.head_norm else {}
    started = {
        variable.path: _Started(variable, sources[variable.path])
        for variable in variables
        if variable.path in sources and variable.path not in names
    }
    if started:
        pairs = ", ".join(f"{path} from {each.path}" for path, each in started.items())
        logging.info("The first layers of the new head start from those of the masked-LM head: %s.", pairs)
    return [started.get(variable.path, variable) for variable in variables]
