"""Zero-shot classification: labels in words, by a model of natural language inference (Yin et al. 2019, section 5)."""

from collections.abc import Iterable, Sequence

import keras
import tensorflow as tf

from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead
from bert_tf.models.windows import RowsTogether, TakeWindows
from bert_tf.tasks.classification.problems import PROBLEMS
from bert_tf.tasks.sequences import pad_sequences
from bert_tf.tasks.servable_task import ServableTask
from bert_tf.utils.names import NLI_TEMPLATE

SLOT = "{}"  # of a label in a template


class ZeroShotTask(ServableTask):
    """Zero-shot task: a text is the premise, and each label, in a sentence, a hypothesis; see `servable_task.py`.

        [CLS] the bridge is closed for repairs [SEP] this example is traffic . [SEP]
        [CLS] the bridge is closed for repairs [SEP] this example is sports . [SEP]

    Args:
        config: configuration of the encoder.
        nli_labels: the model's own labels, in the order of its outputs.
        labels: the labels to choose from.
        template: sentence that states that a label applies; "{}" is the label.
        multi_label: whether any number of labels may be true of a text: each label's probability is that of entailment
            rather than contradiction. Otherwise one label is true: the probabilities are a softmax of the labels'
            entailment logits. A single label always has the former.
        every_window: as in `models/windows.py`.

    Raises:
        ValueError: labels that are no texts, or the same twice, or too few; a template without a place for the label;
            or a model whose labels do not say which of them means entailment.
    """

    name = "zero_shot"
    features = ENCODER_INPUTS
    head = ("classifier/.*",)
    uses_pooler = True
    example_method = "classify"
    reads_whole_texts = False

    def __init__(
        self,
        config: EncoderConfig,
        nli_labels: Sequence[str],
        labels: Sequence[str],
        template: str = NLI_TEMPLATE,
        multi_label: bool = False,
        every_window: bool = False,
    ):
        self.config = config
        self.nli_labels = list(nli_labels)
        self.labels = _checked_labels(labels)
        self.template = _checked_template(template)
        self.multi_label = bool(multi_label) or len(self.labels) == 1
        self.has_several_labels = self.multi_label
        self.every_window = every_window
        self._entailment, self._contradiction = find_entailment(nli_labels)
        if self.multi_label and self._contradiction is None:
            raise ValueError(
                "`multi_label`, or a single label, requires a model with a label for contradiction, one that starts "
                f"with `contra` or `not`; got {', '.join(nli_labels)}; pass two labels or more without `multi_label`, "
                "or use another model."
            )
        self._problem = PROBLEMS["multi_label" if self.multi_label else "single_label"]

    @property
    def hypotheses(self) -> list[str]:
        """The sentence of each label."""
        return [self.template.replace(SLOT, label) for label in self.labels]

    def to_dict(self) -> dict:
        """Returns the arguments, except `config`, that recreate this task; JSON values."""
        return {"nli_labels": self.nli_labels, "labels": self.labels, "template": self.template,
                "multi_label": self.multi_label}  # fmt: skip

    def build_model(self) -> keras.Model:
        """Builds a model from `features`, int32 [B, L, S], to the logits of each label's pair, float32 [B, L, C]."""
        inputs = keras_inputs(self.features, windows=True)
        pairs = TakeWindows(self.every_window, name="take_pairs")(inputs)
        head = ClassificationHead.of(self.config, len(self.nli_labels))
        logits = head(Encoder(self.config)(pairs)["pooled_output"])
        together = RowsTogether(self.every_window, name="pairs")(logits, inputs["input_mask"])
        return keras.Model(inputs, together, name=self.name)

    def card_limitations(self, max_seq_length):
        return [
            f"A text and the sentence of a label together have at most {max_seq_length} tokens, including special "
            "tokens; the rest of the text is ignored.",
            "It was not trained on these labels: measure its accuracy on examples of your own.",
        ]

    def card_facts(self):
        return {"template": self.template}

    def check_length(self, tokenizer, max_seq_length: int):
        """Raises ValueError if the sentence of a label has more tokens than half a sequence, and might be truncated.

        A pair is truncated at the end of its longer text, and a sentence of at most half is never that. It also sets
        `sequences_of_text`.
        """
        lengths = tokenizer.tokenize(tf.constant(self.hypotheses)).row_lengths().numpy()
        most, longest = tokenizer.template.room_for(2, max_seq_length) // 2, int(lengths.argmax())
        self.sequences_of_text = len(self.labels), int(lengths[longest])
        if lengths[longest] > most:
            raise ValueError(
                f"`labels` must be short enough for half of `max_seq_length={max_seq_length}`; got "
                f"{self.labels[longest]!r:.80}, of which the sentence has {lengths[longest]} tokens instead of at most "
                f"{most}; shorten the label or the template."
            )

    def preprocess(self, tokenizer, texts, max_seq_length):
        """Converts texts, strings [n], to the pairs of each text with each label's sentence, int32 [n, L, S]."""
        tokens, hypotheses = tokenizer.tokenize(texts[0]), tokenizer.tokenize(tf.constant(self.hypotheses))
        rows, labels = tf.shape(texts[0])[0], len(self.labels)
        first = tf.gather(tokens, tf.repeat(tf.range(rows), labels))
        second = tf.gather(hypotheses, tf.tile(tf.range(labels), [rows]))
        features = pad_sequences(tokenizer, tokenizer.pack(first, second, max_seq_length=max_seq_length))
        shape = tf.stack([rows, labels, tf.shape(features["input_ids"])[1]])
        return {name: tf.reshape(values, shape) for name, values in features.items()}, None

    def postprocess(self, outputs, origin=None):
        """Returns `label`, the most probable label of each text, all `labels` and their `probabilities`.

        Args:
            outputs: logits float32 [n, L, C].
            origin: unused.

        Returns:
            as a classifier: `label` string [n], `probabilities` float32 [n, L], `labels` string [n, L].
        """
        logits = outputs[..., self._entailment]
        if self.multi_label:  # the sigmoid of the difference is a softmax of the two
            logits -= outputs[..., self._contradiction]
        served = self._problem.serve(logits, tf.constant(self.labels))
        return served | self._problem.predicted(served["probabilities"])

    def example_answer(self, outputs, origin=None):
        return self._problem.serve_example(self.postprocess(outputs))


def find_entailment(nli_labels: Sequence[str]) -> tuple[int, int | None]:
    """Returns the indices of a model's outputs for entailment and for contradiction; None if the latter is unknown.

    Their names start with "entail", and with "contra" or "not", in any case. Transformers takes the first or the last
    output for contradiction, whatever its name is.

    Raises:
        ValueError: no label, or more than one, means entailment.
    """
    found = [n for n, label in enumerate(nli_labels) if label.casefold().startswith("entail")]
    if len(found) != 1:
        raise ValueError(
            "Zero-shot classification requires a model of natural language inference, with one label that starts with "
            f"`entail`; got {', '.join(nli_labels)}. Set id2label in its config.json if its outputs mean entailment, "
            "or use another model."
        )
    others = [n for n, label in enumerate(nli_labels) if label.casefold().startswith(("contra", "not"))]
    return found[0], others[0] if len(others) == 1 else None


def _checked_labels(labels):
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise ValueError(f"`labels` must be a list of texts; got {labels!r:.80}; pass one text per label.")
    found = list(labels)
    bad = [label for label in found if not isinstance(label, str) or not label.strip()]
    if bad or not found:
        what = f"{bad[0]!r:.80}" if bad else "an empty list"
        raise ValueError(f"`labels` must be a list of non-empty texts; got {what}; pass one text per label.")
    repeated = [label for label in found if found.count(label) > 1]
    if repeated:
        raise ValueError(f"`labels` must name each label once; got {repeated[0]!r:.80} twice; remove one.")
    return found


def _checked_template(template):
    if not isinstance(template, str) or template.count(SLOT) != 1:
        raise ValueError(
            f"`template` must contain {SLOT} exactly once, in place of the label; got {template!r:.80}; write, for "
            f"example, 'This text is about {SLOT}.'"
        )
    return template
