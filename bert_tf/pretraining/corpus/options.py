"""Options of pretraining data: one value, passed from the flags to every worker."""

import dataclasses

from bert_tf.pretraining.masking import Masking, check_phrases
from bert_tf.pretraining.settings import ExampleSettings
from bert_tf.utils.text_options import TextOptions


@dataclasses.dataclass(frozen=True)
class CorpusOptions(ExampleSettings):
    """Options for creating examples.

    Attributes:
        text: how text files are read.
    """

    text: TextOptions = TextOptions()

    def __post_init__(self):
        if self.max_seq_length < 5:
            raise ValueError(
                "`max_seq_length` must be at least 5, to fit [CLS], two [SEP] and two more tokens; got "
                f"{self.max_seq_length}."
            )
        if not self.dynamic_masking:
            check_phrases(self.masks.kind, self.phrase_file)
        if self.word_segmenter and self.masking == "token":
            raise ValueError(
                "`word_segmenter` requires a masking of words; got `masking=token`. Use `masking=whole_word`, or "
                "remove `word_segmenter`."
            )

    @property
    def masks(self) -> Masking:
        """Returns the options of `masking.mask`."""
        shares = self.mask_token_prob, self.random_token_prob
        return Masking(self.masking, self.masked_lm_prob, self.max_predictions_per_seq, *shares)
