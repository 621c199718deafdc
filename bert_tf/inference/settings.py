"""Settings of embeddings and searches. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from typing import ClassVar

from bert_tf.utils.settings import option


@dataclasses.dataclass(frozen=True)
class PromptSettings:
    """What an embedder reads before each text."""

    GROUP: ClassVar[str] = "Embeddings and features"

    prompt: str | None = option(
        None,
        "Text to prepend to every text. Default: with an index, the model's prompt for queries or documents, by its "
        "name; otherwise its default prompt, if it has one.",
    )
    prompt_name: str | None = option(None, "Name of a prompt in the model's directory, as an alternative to --prompt.")


@dataclasses.dataclass(frozen=True)
class ApproximateSettings:
    """How an index is searched."""

    GROUP: ClassVar[str] = "Prediction"

    approximate: bool = option(
        False,
        "Search large indexes with a graph (HNSW), which is faster and may miss some of the nearest texts. The "
        "first search creates the graph and stores it in the index. Requires pip install 'bert-tf[usearch]'.",
    )
