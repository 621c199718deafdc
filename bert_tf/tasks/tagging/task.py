"""Token classification, such as named-entity recognition (Devlin et al. 2018, section 5.3)."""

import os

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.evaluation import entities
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead
from bert_tf.models.pooling import check_layers, chosen_layers, is_weighted
from bert_tf.models.recurrent import BiLSTMHead, bilstm_on_top
from bert_tf.tasks.base import FineTuningTask, TaskData, TrainedTask
from bert_tf.tasks.class_weights import class_weights
from bert_tf.tasks.divergences import divergence
from bert_tf.tasks.losses import cross_entropy, sum_losses
from bert_tf.tasks.recurrent import RECURRENT_HEAD, lstm_option
from bert_tf.tasks.sequences import pad_sequences
from bert_tf.tasks.tagging.alignment import find_changed_entities, refuse_changed_entities, warn_of_cut_tokens
from bert_tf.tasks.tagging.columns import read_columns
from bert_tf.tasks.tagging.encoding import encode_sentences
from bert_tf.tasks.tagging.foreign_models import tags_of_others
from bert_tf.tasks.tagging.options import TaggingOptions
from bert_tf.tasks.tagging.outputs import COLUMNS_FILE, ENTITIES_FILE, EVAL_FILE, write_entities, write_tags
from bert_tf.tasks.tagging.report import both_entities, sentence_texts, tagging_report
from bert_tf.tasks.tagging.served_entities import entities_in
from bert_tf.tasks.tagging.words import TaggedWords, encode_words
from bert_tf.utils.files import with_suffix


def check_frozen(options: TaggingOptions):
    """Raises ValueError if the weights of a frozen encoder would be random."""
    if options.feature_layers is not None and not options.init_checkpoint:
        raise ValueError(
            "`feature_layers` requires `init_checkpoint`, because the frozen weights would otherwise be random; got "
            f"`feature_layers={options.feature_layers}` alone."
        )


_FROZEN_UNITS = 256  # of a BiLSTM on a frozen encoder, where nothing else is said
_FEWEST_WORDS = 8  # shorter sentences, such as headings and lines of results, often repeat
_SENTENCES = 1_000  # whose entities are gathered at a time


class TaggingTask(FineTuningTask):
    """Token classification: an encoder with a head on every token; see `tasks/base.py` for the methods.

    The head is a `ClassificationHead`, or with `lstm_units` a one-layer `BiLSTMHead`, trained together with the
    encoder.
    With `layers`, it is the paper's feature-based approach (section 5.3): the encoder is frozen, and the head is a
    two-layer `BiLSTMHead` on those layers.

    Args:
        config: configuration of the encoder.
        labels: the tags, in IOB2: "B-PER", "I-PER", ..., "O"; for models trained elsewhere, in any scheme.
        scheme: scheme of the tags in predictions.txt, "iob1", "iob2" or "bioes": that of the training file.
        doc_stride: tokens from the start of one window of a long text to that of the next.
        class_weights, label_smoothing: as in `ClassificationTask`, per word.
        gradient_checkpointing: as in `Encoder`.
        layers: the layers of a frozen encoder that the head reads, one of `names.LAYERS`. If None, the encoder is
            trained.
        lstm_units: units per direction of the `BiLSTMHead`. If None, 256 with `layers`, otherwise no such head.
        word_boundaries: where the words of a text end, one of `names.WORD_BOUNDARIES`.
    """

    name = "tagging"
    options = TaggingOptions()
    files = (with_suffix(EVAL_FILE, "*"), COLUMNS_FILE, ENTITIES_FILE)
    features = ENCODER_INPUTS
    targets = ("tag_ids",)
    head = ("classifier/.*",)

    def __init__(
        self,
        config: EncoderConfig,
        labels: list[str],
        scheme: str = "iob2",
        doc_stride: int = 64,
        class_weights: tuple[float, ...] | None = None,
        label_smoothing: float = 0.0,
        gradient_checkpointing: bool = False,
        layers: str | None = None,
        lstm_units: int | None = None,
        word_boundaries: str = "whitespace",
    ):
        if layers:
            check_layers(layers, config.num_hidden_layers, "feature_layers")
        self.config = config
        self.labels = list(labels)
        self.scheme = scheme
        self.doc_stride = doc_stride
        self.class_weights = None if class_weights is None else tuple(map(float, class_weights))
        self.label_smoothing = float(label_smoothing)
        self.gradient_checkpointing = gradient_checkpointing
        self.word_boundaries = word_boundaries
        self.layers, self.lstm_units = layers, lstm_units or (_FROZEN_UNITS if layers else None)
        if layers:
            self.head = ("tagger/.*",)
        elif lstm_units:
            self.head = RECURRENT_HEAD
        self.types = sorted({entities.split_tag(label)[1] for label in labels} - {""})
        rates = [f"{rate}_{each}" for each in self.types for rate in ("f1", "precision", "recall")]
        self.metric_names = ("f1", "precision", "recall", "accuracy", *rates)

    @classmethod
    def from_pretrained(cls, directory, model):
        tags, longest = tags_of_others(model.config, model.labels), model.config.max_length
        return tags and TrainedTask(cls(model.config, *tags, max(1, longest // 2)), ("text",), longest)

    @classmethod
    def read_data(cls, options, kinds, trained):
        examples, boundaries = {}, _boundaries(options, trained)
        for kind in kinds:
            columns = options.text_column, None if kind == "test" else options.tag_column
            more = options.tag_scheme, options.encoding, boundaries
            read = examples[kind] = read_columns(options.file_of(kind, "sentences"), *columns, *more)
            boundaries = boundaries or read.boundaries  # of the training file, which is the first
            if not trained:
                refuse_changed_entities(read)
        return TaskData(examples)

    @classmethod
    def checked_examples(cls, examples, data, options):
        """Returns the data to check; labels are entity types, one per entity."""
        targets = types = None
        if examples.tags is not None:
            targets = list(map(tuple, examples.tags))
            types = [[tag[2:] for tag in tags if tag.startswith("B-")] for tags in examples.tags]
        texts, changed = {"text": sentence_texts(examples)}, find_changed_entities(examples)
        called = {"label": "entity type", "target": "tags", "dialect": options.dialect}
        more = {"fewest_words": _FEWEST_WORDS, "findings": (changed,) if changed else ()}
        return CheckedExamples(examples.path, examples.where, texts, targets, types, **called, **more)

    @classmethod
    def create(cls, model, data, options, before, use_xla=False):
        if before and not options.do_train:
            return cls(model.config, **before.task.to_dict(), gradient_checkpointing=options.gradient_checkpointing)
        stride = options.doc_stride or max(1, options.max_seq_length // 2)
        if "train" not in data.examples:
            boundaries = options.word_boundaries or "whitespace"
            return cls._of_others(model, stride, options.gradient_checkpointing, boundaries)
        check_frozen(options)
        train = data.examples["train"]
        labels = list(data.labels) if data.labels else list_tags(train.tags)
        label_ids = np.array([labels.index(tag) for tags in train.tags for tag in tags])
        weights = None if data.weights is None else np.repeat(data.weights, list(map(len, train.tags)))
        return cls(
            model.config,
            labels,
            train.scheme,
            stride,
            class_weights(options.class_weights, labels, label_ids, all_occur=False, example_weights=weights),
            options.label_smoothing,
            options.gradient_checkpointing,
            options.feature_layers,
            options.lstm_units,
            train.boundaries,
        )

    @classmethod
    def _of_others(cls, model, stride, gradient_checkpointing, boundaries):
        """Returns the task of a tagger trained elsewhere."""
        tags = tags_of_others(model.config, model.labels)
        if tags is None:
            raise ValueError(
                "`do_eval` and `do_predict` require a trained model, but this one was not trained for tagging: it has "
                "no task.json, and its configuration names no class ForTokenClassification. Train it first, with "
                "`do_train`."
            )
        return cls(
            model.config, *tags, stride, gradient_checkpointing=gradient_checkpointing, word_boundaries=boundaries
        )

    def to_dict(self):
        options = {"class_weights": None, "label_smoothing": 0.0, "word_boundaries": "whitespace"}
        given = {name: getattr(self, name) for name, usual in options.items() if getattr(self, name) != usual}
        given |= ({"layers": self.layers} if self.layers else {}) | lstm_option(self.lstm_units)
        return {"labels": self.labels, "scheme": self.scheme, "doc_stride": self.doc_stride, **given}

    def identity(self):
        options = {"class_weights": self.class_weights and list(self.class_weights), "feature_layers": self.layers}
        options |= lstm_option(self.lstm_units)
        if self.word_boundaries != "whitespace":
            options["word_boundaries"] = self.word_boundaries
        return {name: value for name, value in options.items() if value}

    def label_name(self, output):
        """Returns the type of a tag: both of its tags are renamed with it."""
        return output.partition("-")[2]

    def head_difference(self, saved, config, labels):
        """Tags that mean something else in another scheme; those of our own models are always in IOB2."""
        try:
            scheme = "iob2" if saved else (tags_of_others(config, labels) or (labels, "iob2"))[1]
        except ValueError:
            return "its labels are not entity tags"
        other = "" if scheme == "iob2" else f"its tags are in the scheme {scheme}, and new tags are in iob2"
        return super().head_difference(saved, config, labels) or other

    def build_model(self) -> keras.Model:
        """Builds a model from `features` to the logits of every token, float32 [B, S, L]."""
        inputs = keras_inputs(self.features)
        encoder = Encoder(self.config, gradient_checkpointing=self.gradient_checkpointing, trainable=not self.layers)
        return keras.Model(inputs, self._logits(encoder, inputs), name="tagging")

    def _logits(self, encoder, inputs):
        L, units = len(self.labels), self.lstm_units
        if units and not self.layers:
            return bilstm_on_top(encoder, inputs, L, units)
        if self.config.has_pooler:
            encoder.pooler.trainable = False  # unused here
        outputs, numbers = encoder(inputs), (self.config.hidden_dropout_prob, self.config.initializer_range)
        if self.layers:
            head = BiLSTMHead(L, units, is_weighted(self.layers), *numbers)
            return head(chosen_layers(outputs, self.layers), inputs["input_mask"])
        return ClassificationHead.of(self.config, L, transforms=False)(outputs["sequence_output"])

    def encode_examples(self, tokenizer, examples, max_seq_length, with_targets):
        layout = max_seq_length, self.doc_stride, with_targets, self.word_boundaries
        encoded = encode_sentences(tokenizer, examples, self.labels, *layout)
        if examples.entities is not None and examples.tags is not None:
            warn_of_cut_tokens(examples, encoded.origin.continued())
        return encoded

    def sequence_weights(self, encoded, weights):
        """Returns the weight of each sequence's sentence; one without the first token of a word has no loss."""
        words, sentences = encoded.origin.words, np.zeros(len(encoded), np.int64)
        sentences[words.sequences] = words.of_text
        return weights[sentences]

    def example_weights(self, batch):
        """Returns the number of tagged words per sequence, or the sum of their tags' weights."""
        return tf.reduce_sum(self._word_weights(batch["tag_ids"]), axis=1)

    def _word_weights(self, tags):
        """Returns float32 [B, S]: 1, or the tag's weight, at each tagged word's first token; otherwise 0."""
        weights = tf.ones(tf.shape(tags))
        if self.class_weights is not None:
            weights = tf.gather(tf.constant(self.class_weights), tf.maximum(tags, 0))
        return tf.where(tags >= 0, weights, 0.0)

    def distillation_losses(self, outputs, teacher_outputs, batch, temperature):
        """Computes the sum over the tagged words of each sequence."""
        losses = divergence(outputs, teacher_outputs, temperature) * self._word_weights(batch["tag_ids"])
        return tf.reduce_sum(losses, axis=1)

    def loss(self, outputs, batch, normalizers):
        weights = None if self.class_weights is None else tf.constant(self.class_weights)
        losses = _losses(outputs, batch["tag_ids"], weights, self.label_smoothing)
        return tf.math.divide_no_nan(sum_losses(losses, batch), normalizers["examples"])

    def example_losses(self, outputs, batch):
        words = tf.reduce_sum(tf.cast(batch["tag_ids"] >= 0, tf.float32), axis=1)
        return _losses(outputs, batch["tag_ids"], None, 0.0), words

    def reduce_outputs(self, outputs, batch):
        """Returns each token's most probable tag, int32 [B, S], and that tag's probability, float32 [B, S]."""
        return _best_tags(outputs)

    def metrics(self, outputs, encoded):
        """Computes conlleval's metrics, overall and per type; a type that does not occur has 0.

        Of texts with character spans, an entity is correct if its type and both of its offsets are those of the file.
        """
        examples, predictions = encoded.origin.examples, self._tags(outputs, encoded.origin)
        scores = dict.fromkeys(self.metric_names, 0.0) | entities.score_entities(examples.tags, predictions)
        both = both_entities(examples, predictions)
        return scores | entities.score_spans(*both) if both else scores

    def error_report(self, outcome):
        origin, chances = outcome.encoded.origin, outcome.outputs["probability"]
        tags = self._tags(outcome.outputs, origin)
        return tagging_report(outcome.examples, tags, origin.take(chances, 1.0), self.types)

    def write_scored(self, directory, outcomes, suffix=""):
        for outcome in outcomes:
            examples, predictions = outcome.examples, self._tags(outcome.outputs, outcome.encoded.origin)
            path = os.path.join(directory, with_suffix(EVAL_FILE, suffix))
            write_tags(path, examples, examples.tags, predictions, scheme=examples.scheme)

    def decode(self, outcome):
        """Returns the tags of each sentence's words, and its entities."""
        words, outputs = outcome.encoded.origin.whole_words(), outcome.outputs
        answers = []
        bounds = np.searchsorted(words.of_text, np.arange(0, len(outcome.examples) + _SENTENCES, _SENTENCES))
        for part, (first, limit) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
            start = part * _SENTENCES
            own = TaggedWords(words.texts[start : start + _SENTENCES], *(each[first:limit] for each in words[1:]))
            answers += self._as_dicts(outputs, own._replace(of_text=own.of_text - start))
        return self._tags(outputs, outcome.encoded.origin), answers

    def write_answers(self, directory, outcome, answers):
        tags, mentions = answers
        write_tags(os.path.join(directory, COLUMNS_FILE), outcome.examples, tags, scheme=self.scheme)
        write_entities(os.path.join(directory, ENTITIES_FILE), outcome.examples, mentions)

    def card_limitations(self, max_seq_length):
        return ["It only finds entities of its label types, and no nested entities."]

    def preprocess(self, tokenizer, texts, max_seq_length):
        packed, words = encode_words(tokenizer, texts[0], max_seq_length, self.doc_stride, self.word_boundaries)
        return pad_sequences(tokenizer, packed), words

    def postprocess(self, outputs, origin=None):
        """Returns the predicted entities of each text.

        Args:
            outputs: outputs of the model for w sequences.
            origin: the second result of `preprocess`. If None, only ids were sent, and each token's tag is served.

        Returns:
            `entity` and `type` (string), `start` and `end` (int32) and `score` (float32), each [n, E], where E is the
            largest number of entities in a text. Positions after a text's last entity hold "" and 0; `entity_count`,
            int32 [n], is the number of entities of each text. `entity` is text[start:end], in code points, without
            invalid UTF-8 bytes. Without origin: `tag` (string) and `probability` (float32), each [w, S].
        """
        best = _best_tags(outputs)
        if origin is None:
            return {"tag": tf.gather(tf.constant(self.labels), best["tag"]), "probability": best["probability"]}
        return entities_in(best, origin, self.labels)

    def postprocess_numbers(self, outputs):
        return _best_tags(outputs)

    def _tags(self, outputs, origin):
        """Returns the tags of each sentence's words; an entity begins with B- even if the model predicts I-.

        A word that the tokenizer drops entirely, such as a zero-width space, does not end an entity that continues
        after it, just as it does not in a text that is served. Words of one token are in one entity.
        """
        tags, found = origin.take(np.array(self.labels, object)[outputs["tag"]], None), []
        for own, continued in zip(tags, origin.continued(), strict=True):
            chunks = entities.entities_around([None if c else tag for tag, c in zip(own, continued, strict=True)])
            chunks = [chunk._replace(last=_last_of(chunk.last, continued)) for chunk in chunks]
            found.append(entities.tags_of(chunks, len(own), "iob2"))
        return found

    def _as_dicts(self, outputs, words):
        columns = {name: values.numpy() for name, values in entities_in(outputs, words, self.labels).items()}
        return [
            [
                {
                    "text": columns["entity"][i, k].decode("utf-8"),
                    "type": columns["type"][i, k].decode("utf-8"),
                    "start": int(columns["start"][i, k]),
                    "end": int(columns["end"][i, k]),
                    "score": float(str(columns["score"][i, k])),
                }
                for k in range(count)
            ]
            for i, count in enumerate(columns["entity_count"])
        ]


def _last_of(word, continued):
    """Returns the last word of the token that a word's token is."""
    while word + 1 < len(continued) and continued[word + 1]:
        word += 1
    return word


def _boundaries(options, trained):
    """Returns where words end, or None if the first file decides; for a model trained elsewhere, at spaces."""
    asked, known = options.word_boundaries, trained and trained.task.word_boundaries
    if known and asked not in (None, known):
        raise ValueError(
            f"`word_boundaries` must match the trained model's, {known}; got {asked}; omit it, or train again."
        )
    return known or asked or ("whitespace" if options.init_checkpoint and not options.do_train else None)


def list_tags(tags) -> list[str]:
    """Returns all IOB2 tags of the types that occur in IOB2 tags, sorted as strings.

    Each type gets both of its tags, because its entities may be one word long in training and longer elsewhere.
    """
    types = {entities.split_tag(tag)[1] for each in tags for tag in each if tag != "O"}
    return sorted({"O", *(f"{prefix}-{each}" if each else prefix for each in types for prefix in "BI")})


def _losses(logits, tag_ids, weights, smoothing):
    """Computes the sum of the losses of each sequence's tagged words, float32 [B]."""
    flat = tf.reshape(logits, [-1, logits.shape[-1]])
    target = tf.reshape(tf.maximum(tag_ids, 0), [-1])
    losses = tf.reshape(cross_entropy(flat, target, weights, smoothing), tf.shape(tag_ids))
    return tf.reduce_sum(tf.where(tag_ids >= 0, losses, 0.0), axis=1)


def _best_tags(logits):
    probabilities = tf.nn.softmax(logits)
    return {"tag": tf.argmax(logits, -1, tf.int32), "probability": tf.reduce_max(probabilities, -1)}
