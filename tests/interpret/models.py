"""Models for tests of what is inside them: the tiny ones whose insides torch has told, and those with words."""

import keras
from safetensors.numpy import load_file

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.loading import Bert
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.models.config import EncoderConfig, template_for
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import parity, tiny
from tests.harness import randomize

_CLASSIFIER = "classifier/output_weights"
INSIDE = parity.GOLDENS / "inspect"
CASES = sorted(path.stem for path in INSIDE.iterdir())
NAMES = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}


def golden(case) -> tuple[Bert, dict, dict]:
    """Returns (a model without tokenizer, its inputs [1, S], what torch saw inside)."""
    folder = parity.GOLDENS / "families" / case
    checkpoint, config, head = open_checkpoint(folder), EncoderConfig.load(folder), None
    given = load_file(folder / "expected.safetensors")
    encoder = Encoder(config)
    encoder.build()
    variables = list(encoder.variables)
    if _CLASSIFIER in checkpoint.names:
        act = config.classifier_act if "classifier/dense/kernel" in checkpoint.names else None
        head = ClassificationHead(checkpoint.shape(_CLASSIFIER)[0], 0.0, transform_act=act)
        head.build((None, config.hidden_size))
        variables += head.variables
    assign_weights(checkpoint, variables, allow_unmatched=(*heads.others(("classifier/.*",)), heads.POOLER))
    others = {path: checkpoint.get(path) for path in checkpoint.names if path.startswith("cls/")}
    inputs = {ours: given[theirs][:1] for theirs, ours in NAMES.items()}
    return Bert(config, None, encoder, head, None, others), inputs, load_file(INSIDE / f"{case}.safetensors")


def with_words(head=None, labels=None, others=None, **changes) -> Bert:
    """Returns a tiny model with a vocabulary, random weights, and a head; `changes` are of its configuration."""
    config = tiny.config(**changes)
    keras.utils.set_random_seed(1)
    encoder = Encoder(config)
    encoder.build()
    randomize(encoder)
    if head is not None:
        head.build((None, config.hidden_size))
    tokenizer = WordPieceTokenizer(tiny.VOCAB, template=template_for(config))
    return Bert(config, tokenizer, encoder, head, labels, others or {})
