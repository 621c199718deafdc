"""Settings of embeddings and searches. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.utils import names
from bert_tf.utils.settings import option, option_as


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
        "first search creates the graph and stores it in the index. Requires pip install 'bert-tf[search]'.",
    )


@dataclasses.dataclass(frozen=True)
class EncodeOptions:
    """Options that override an embedder's own settings; None for the model's setting."""

    GROUP: ClassVar[str] = "Embeddings and features"

    layers: str | None = option(
        None,
        "Encoder layers to pool, by name. Default: as set in the model directory, otherwise last.",
        choices=names.LAYERS,
    )
    pooling: str | Sequence[str] | None = option(
        None,
        "Pooling of token features into one vector; the vectors of several poolings are concatenated. Default: as "
        "set in the model directory, otherwise mean.",
        choices=names.POOLINGS, essential=True,
    )
    normalize: bool | None = option(
        None,
        "Scale each embedding to unit length. Default: as set in the model directory, otherwise false.",
    )
    prompt: str | None = option_as(PromptSettings, "prompt", essential=True)
    prompt_name: str | None = option_as(PromptSettings, "prompt_name")
    max_seq_length: int | None = option(
        None,
        "Maximum text length in tokens, including special tokens. Default: as set in the model directory, otherwise "
        "the number of positions of the model.",
        low=3, group="Model", essential=True,
    )
    do_lower_case: bool | None = option(
        None,
        "Lowercase the text. Default: as set in the checkpoint, otherwise true.",
        group="Model",
    )
    dim: int | None = option(
        None,
        "Number of leading dimensions to keep, for models trained with --matryoshka_dims. If the model normalizes its "
        "embeddings, the shorter ones are normalized again. Default: all.",
        low=1, essential=True,
    )

    def __post_init__(self):
        if self.dim is not None and self.dim < 1:
            raise ValueError(f"`dim` must be 1 or more; got {self.dim}.")


DEFAULT_ENCODING = EncodeOptions()


@dataclasses.dataclass(frozen=True)
class MiningOptions:
    """Options for choosing negatives from the texts that a search finds (Moreira et al. 2024).

    Raises:
        ValueError: there are not as many texts to choose from.
    """

    GROUP: ClassVar[str] = "Data"

    num_negatives: int = option(5, "Maximum number of negatives per query.", low=1)
    relative_margin: float = option(
        0.05,
        "Fraction by which a negative must score lower than the query's lowest-scoring positive, to exclude unlabeled "
        "positives; 0 only excludes texts that score higher. Scores are cosine similarities, or those that --rerank "
        "serves: probabilities or logits.",
        low=0,
    )
    range_min: int = option(0, "Number of highest-scoring texts to skip, after --relative_margin.", low=0)
    range_max: int = option(100, "Number of most similar texts to choose from, not counting positives.", low=1)

    def __post_init__(self):
        if self.range_min + self.num_negatives > self.range_max:
            raise ValueError(
                "`range_max` must be at least the sum of `range_min` and `num_negatives`; got "
                f"`range_max={self.range_max}`, `range_min={self.range_min}` and `num_negatives={self.num_negatives}`; "
                "raise `range_max`."
            )


DEFAULT_MINING = MiningOptions()


@dataclasses.dataclass(frozen=True)
class SearchRouteSettings:
    """Index that a server searches, and the models that it uses for this."""

    GROUP: ClassVar[str] = "Ports and protocols"

    search_index: str | None = option(
        None,
        "Index made with `bert-tf embed --index_dir`, which POST /v1/search of the REST port searches. Changes to the "
        "index take effect with the next request.",
        essential=True,
    )
    search_model: str | None = option(
        None, "Model that the index was made with. Default: its path at that time.", reads_model=True
    )
    search_approximate: bool = option(
        False,
        "Search large indexes by a graph, as with --approximate of `bert-tf search`.",
    )
    search_reranker: str | None = option(
        None,
        "Exported or trained reranker, or CrossEncoder directory, that orders texts found.",
        reads_model=True,
    )
    search_rerank_weight: float = option(
        1.0,
        "Weight of the reranker's scores, as with --rerank_weight of `bert-tf search`.",
        low=0.0, high=1.0,
    )
    search_reader: str | None = option(
        None,
        "Exported or trained question-answering model that answers the queries from the texts found.",
        reads_model=True,
    )
