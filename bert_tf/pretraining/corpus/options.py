"""What pretraining data are to be like: one value, from the flags to every worker."""

import dataclasses

from bert_tf.pretraining.records.masking import Masking, check_phrases
from bert_tf.utils.documents import TextOptions


@dataclasses.dataclass(frozen=True)
class CorpusOptions:
    """How examples are made; the names and defaults are those of google-research/bert's flags where it has one.

    Attributes:
        max_seq_length: pieces of a row, special ones included.
        max_predictions_per_seq: masked pieces of a row at most.
        masked_lm_prob: share of an example's pieces that is masked.
        short_seq_prob: how often an example aims at a random shorter length.
        dupe_factor: how many times the corpus is gone through, each time with other examples and masks.
        random_seed: of everything that is drawn.
        masking: one of `names.MASKINGS`.
        phrase_file: with the masking "phrase": a list of phrases, one a line.
        mask_token_prob: share of the masked pieces in whose place [MASK] stands.
        random_token_prob: share in whose place a random piece stands; the rest stays as it is.
        sentence_objective: "nsp", "sop" or "none".
        packing: several short examples in a row.
        max_sentences_per_seq: with packing, examples in a row at most.
        dynamic_masking: leave the masking to the reader of the records.
        drop_duplicate_lines: keep one of several equal sentences.
        text: how the files are read.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    dupe_factor: int = 10
    random_seed: int = 12345
    masking: str = "token"
    phrase_file: str | None = None
    mask_token_prob: float = 0.8
    random_token_prob: float = 0.1
    sentence_objective: str = "nsp"
    packing: bool = False
    max_sentences_per_seq: int = 8
    dynamic_masking: bool = False
    drop_duplicate_lines: bool = False
    text: TextOptions = TextOptions()

    def __post_init__(self):
        if self.max_seq_length < 5:
            raise ValueError(
                "`max_seq_length` must have room for two pieces beside [CLS] and two [SEP], so be 5 at least. "
                f"Received {self.max_seq_length}."
            )
        if not self.dynamic_masking:
            check_phrases(self.masks.kind, self.phrase_file)

    @property
    def masks(self) -> Masking:
        """How `masking.mask` is to mask."""
        shares = self.mask_token_prob, self.random_token_prob
        return Masking(self.masking, self.masked_lm_prob, self.max_predictions_per_seq, *shares)
