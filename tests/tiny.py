"""A model small enough for tests: vocabulary, checkpoint directory, and texts that it can learn to tell apart."""

import copy
import json
import os
import pathlib

import numpy as np

from bert_tf.data.dataset import EncodedDataset
from bert_tf.models.config import EncoderConfig

GOOD, BAD = ("good", "great", "warm", "funny"), ("bad", "dull", "cold", "empty")
FILL = ("the", "film", "is", "a", "story", "of", "people", "and", "music", "to", "see", "it")
VOCAB = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *FILL, "##s", ".", ",")
FAIRSEQ_VOCAB = ("<s>", "<pad>", "</s>", "<unk>", *VOCAB, "<mask>")  # as in MPNet
MODERNBERT = {  # changes to `config`
    "model_type": "modernbert", "num_hidden_layers": 2, "type_vocab_size": 0, "has_pooler": False, "norm_first": True,
    "first_attention_norm": False, "gated_mlp": True, "head_norm": True, "classifier_act": "gelu", "norm_bias": False,
    "attention_bias": False, "global_rope_theta": 100.0, "local_attention": 2, "global_attn_every_n_layers": 2,
}  # fmt: skip

DEBERTA = {  # likewise; fewer buckets than most texts have tokens
    "model_type": "deberta-v2", "type_vocab_size": 0, "has_pooler": False, "classifier_act": "gelu",
    "hidden_act": "gelu", "layer_norm_eps": 1e-7, "pos_att_type": ("p2c", "c2p"), "position_buckets": 6,
    "position_biased_input": False, "replaced_token_context": True,
    "extra": {"relative_attention": True, "share_att_key": True, "norm_rel_ebd": "layer_norm"},  # in its config.json
}  # fmt: skip

BIASED = {  # likewise, as in MPNet, but with BERT's vocabulary, and fewer buckets
    "model_type": "bert", "type_vocab_size": 0, "has_pooler": False, "classifier_act": "tanh", "hidden_act": "gelu",
    "first_position": 2, "relative_attention_num_buckets": 8,
}  # fmt: skip

NOMIC = {  # likewise
    "model_type": "nomic_bert", "hidden_act": "silu", "gated_mlp": True, "attention_bias": False, "mlp_bias": False,
    "classifier_bias": False, "decoder_bias": False, "global_rope_theta": 100.0,
}  # fmt: skip
GTE = {  # likewise
    "model_type": "new", "hidden_act": "gelu", "gated_mlp": True, "mlp_input_bias": False, "global_rope_theta": 20.0,
    "rope_ntk_factor": 4.0, "extra": {"position_embedding_type": "rope"},
}  # fmt: skip


def config(dropout=0.0, **changes) -> EncoderConfig:
    """One layer of width 32 for `VOCAB`, 32 positions: tracing, most of the work of a tiny model, goes by layers."""
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    numbers = {"vocab_size": len(VOCAB), "max_position_embeddings": 32, "initializer_range": 0.1}
    return EncoderConfig(**{**numbers, **shape, **rates, **changes})


def checkpoint(folder, dropout=0.1, vocab=VOCAB, **changes) -> pathlib.Path:
    """Writes a directory as google-research/bert's releases are: random weights, bert_config.json, vocab.txt."""
    import keras

    from bert_tf.checkpoints.tf1 import write_tf1
    from bert_tf.models.encoder import Encoder

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(0)
    encoder = Encoder(config(dropout, **changes))
    encoder.build()
    encoder.config.save(folder / "bert_config.json")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocab), encoding="utf-8")
    write_tf1(os.fspath(folder / "bert_model.ckpt"), encoder.variables)
    return folder


def pretrained(folder, **changes) -> pathlib.Path:
    """Writes the same with both heads of pretraining."""
    import keras

    from bert_tf.checkpoints.tf1 import write_tf1
    from bert_tf.models.pretrainer import Pretrainer

    folder = checkpoint(folder, dropout=0.0, **changes)
    keras.utils.set_random_seed(1)
    write_tf1(os.fspath(folder / "bert_model.ckpt"), Pretrainer(config(**changes)).variables)
    return folder


def texts(n, seed=0, names=("0", "1")) -> list[tuple[str, str]]:
    """Returns n (text, label) of 3 to 14 words; the label says whether a good or a bad word stands among them."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        label, words = rng.integers(2), rng.choice(FILL, rng.integers(2, 14)).tolist()
        words.insert(rng.integers(len(words) + 1), rng.choice((BAD, GOOD)[label]))
        rows.append((" ".join(words), names[label]))
    return rows


def write_tsv(path, rows, header="text\tlabel"):
    """Writes rows of strings, tab separated; `header` None for a file without one."""
    lines = ([header] if header else []) + ["\t".join(row) for row in rows]
    pathlib.Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_jsonl(path, rows, keys):
    lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
    pathlib.Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def rows(**targets):
    """Returns what a task's metrics hold the outputs against, where nothing but targets is needed."""
    return EncodedDataset({}, np.zeros(1, np.int64), targets)


def tokenized(n, seed=0, longest=14, **targets) -> EncodedDataset:
    """Returns n examples of 3 to `longest` ids, [CLS] first; without `targets` the label tells if a good word is in."""
    rng = np.random.default_rng(seed)
    good, bad, fill = (np.array([VOCAB.index(w) for w in words]) for words in (GOOD, BAD, FILL))
    rows, labels = [], rng.integers(0, 2, n).astype(np.int32)
    for label in labels:
        words = rng.choice(fill, rng.integers(0, longest - 2))
        row = np.insert(words, rng.integers(len(words) + 1), rng.choice((bad, good)[label]))
        rows.append(np.array([2, *row, 3], np.int32))
    splits = np.cumsum([0] + [len(row) for row in rows])
    pieces = {"input_ids": np.concatenate(rows), "segment_ids": np.zeros(splits[-1], np.int32)}
    return EncodedDataset(pieces, splits, targets or {"label_ids": labels})


def batches(examples, batch_size, steps=1, width=16):
    """Returns `steps` batches of one width, in the examples' order, begun again when they are used up."""
    from bert_tf.data import dataset

    order = np.resize(np.arange(len(examples)), (steps, batch_size))
    return dataset.build_batches(examples, order, width, by_length=False)


def shallow(task):
    """Takes the blocks out of a class of tasks: for tests of training whose model is no matter, as tracing is slow."""

    class Shallow(task):
        def __init__(self, config, *args, **kwargs):
            config = copy.copy(config)
            object.__setattr__(config, "num_hidden_layers", 0)  # the encoder can do so
            super().__init__(config, *args, **kwargs)

    return Shallow
