"""Tiny models of every family with its kind of tokenizer, and text that the tokenizers know."""

import pathlib
import shutil

import numpy as np

from bert_tf.models.config import EncoderConfig
from bert_tf.models.family_registry import family
from bert_tf.tokenization.table_registry import read_tables
from tests import tiny
from tests.conftest import ROOT

_FOLDER = ROOT / "tests" / "goldens" / "tokenizers"
_SHAPE = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 1,
          "max_position_embeddings": 40, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
          "initializer_range": 0.1}  # fmt: skip
_RELATIVE = {"relative_attention": True, "share_att_key": True, "norm_rel_ebd": "layer_norm", "type_vocab_size": 0,
             "pos_att_type": ["p2c", "c2p"], "position_buckets": 8, "position_biased_input": False}  # fmt: skip
# The family -> the folder of its tokenizer, or the tokens of its WordPiece vocabulary, and what its configuration has.
FAMILIES = {
    "bert": (tiny.VOCAB, {"type_vocab_size": 2}),
    "distilbert": (tiny.VOCAB, {}),
    "electra": (tiny.VOCAB, {"embedding_size": 8, "type_vocab_size": 2}),
    "ernie": (tiny.VOCAB, {"use_task_id": True, "task_type_vocab_size": 3, "type_vocab_size": 4}),
    "albert": ("unigram", {"embedding_size": 8, "type_vocab_size": 2}),
    "roberta": ("byte_bpe", {"type_vocab_size": 1}),
    "roberta-prelayernorm": ("byte_bpe", {"type_vocab_size": 1}),
    "xlm-roberta": ("unigram", {"type_vocab_size": 1}),
    "camembert": ("whole/4/camembert", {"type_vocab_size": 1}),
    "mpnet": (tiny.FAIRSEQ_VOCAB, {}),
    "modernbert": ("modernbert", {"local_attention": 8}),
    "nomic_bert": (tiny.VOCAB, {"hidden_act": "silu", "type_vocab_size": 2}),
    "new": (tiny.VOCAB, {"rope_theta": 50.0, "rope_scaling": {"type": "ntk", "factor": 2.0}}),
    "deberta-v2": ("deberta", _RELATIVE),
}
_WORDS = (*tiny.FILL, *tiny.GOOD, *tiny.BAD)


def model_directory(folder, model_type, **settings) -> pathlib.Path:
    """Writes FOLDER/model as Hugging Face does, with random weights of a masked LM; `settings` are of config.json."""
    import keras

    from bert_tf.checkpoints.model_arrays import ModelArrays
    from bert_tf.checkpoints.writers import write_model
    from bert_tf.models.pretrainer import Pretrainer

    folder, tokenizer = pathlib.Path(folder), tokenizer_of(pathlib.Path(folder) / "tokenizer", model_type)
    _, changes = FAMILIES[model_type]
    ids = {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id}
    config = EncoderConfig.from_dict({"model_type": model_type, **_SHAPE, **ids, **changes, **settings})
    keras.utils.set_random_seed(1)
    model = Pretrainer(config, next_sentence=False)
    arrays = {variable.path: np.asarray(variable) for variable in model.variables}
    (folder / "model").mkdir()
    write_model(str(folder / "model"), "huggingface", ModelArrays(config, arrays, tokenizer))
    return folder / "model"


def tokenizer_of(folder, model_type, kinds=None):
    """Returns the family's tokenizer, of files that are copied to a folder; `kinds` are the classes, by default those
    that run in the graph."""
    from bert_tf.tokenization.registry import TOKENIZERS

    source, _ = FAMILIES[model_type]
    if isinstance(source, str):
        shutil.copytree(_FOLDER / source, folder)
    else:
        pathlib.Path(folder).mkdir()
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in source), encoding="utf-8")
    if model_type == "xlm-roberta":
        (folder / "spiece.model").rename(folder / "sentencepiece.bpe.model")
    row = family(model_type)
    return read_tables(str(folder), row, row.template, kinds=kinds or TOKENIZERS)


def text(number: int = 30, seed: int = 0) -> str:
    """Documents of a few sentences, one sentence per line."""
    rng = np.random.default_rng(seed)
    documents = [[" ".join(rng.choice(_WORDS, rng.integers(3, 12))) + "." for _ in range(5)] for _ in range(number)]
    return "\n\n".join("\n".join(sentences) for sentences in documents) + "\n"
