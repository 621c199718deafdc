"""Writes small seeded models of every family and head as Transformers saves them, and what they compute; reads ours.

    PYTHON_WITH_TORCH tests/goldens/transformers_folders.py write FOLDER
    PYTHON_WITH_TORCH tests/goldens/transformers_folders.py read FOLDER BACK
    PYTHON_WITH_TORCH tests/goldens/transformers_folders.py keys

`write` makes FOLDER/CASE for each case, model and tokenizer in one folder, and beside it CASE.npz: `texts` and `pair`,
`ids N` and, where the tokenizer gives them, `types N` of each of them, the pair last; `input_ids`, `attention_mask`,
`token_type_ids` of all as a batch; float32 `sequence_output`, `pooled_output`, and what the class returns, each by its
name; of classifiers of texts `answers`, what Transformers' pipeline makes of the logits of the texts. `read` loads
BACK/CASE, which another program wrote of such a folder, and prints, as JSON, where ids or outputs are not those of
CASE.npz. `keys` prints, as JSON, the keys that the configurations and tokenizers of the families read.
"""

import inspect
import json
import pathlib
import re
import sys
import warnings

import modernbert_tokenizer
import numpy as np
import torch
import transformers

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

TEXTS = ("A good film, the story of people", "The [E1] covidology <ent> film isn't café", "Zoë")
PAIR = ("the film", "good people 3.50")
_WORDS = ("a", "good", "film", "the", "story", "of", "people", "is", "it", "cafe", "zoe", "and", "music", "isn",
          "covid", "3", "50", ".", ",", "'", "e1", "t")  # fmt: skip
_PIECES = ("##s", "##ology", "##m", "##e", "##n", "##t", *"[]<>abcdefghijklmnopqrstuvwxyz1")
_SHAPE = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
          "max_position_embeddings": 72}  # fmt: skip
_TO_DISTILBERT = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
                  "intermediate_size": "hidden_dim"}  # fmt: skip
# model_type -> how its classes begin, its tokenizer's class, what its configuration has beside `_SHAPE`.
FAMILIES = {
    "bert": ("Bert", "BertTokenizer", {}),
    "distilbert": ("DistilBert", "DistilBertTokenizer", {}),
    "electra": ("Electra", "ElectraTokenizer", {"embedding_size": 8}),
    "ernie": ("Ernie", "BertTokenizer", {"use_task_id": True, "task_type_vocab_size": 3}),
    "roberta": ("Roberta", "RobertaTokenizer", {"type_vocab_size": 1}),
    "roberta-prelayernorm": ("RobertaPreLayerNorm", "RobertaTokenizer", {"type_vocab_size": 1}),
    "xlm-roberta": ("XLMRoberta", "XLMRobertaTokenizer", {"type_vocab_size": 1}),
    "albert": ("Albert", "AlbertTokenizer", {"embedding_size": 12, "classifier_dropout_prob": 0.1}),
    "modernbert": ("ModernBert", "PreTrainedTokenizerFast", {"num_hidden_layers": 3, "local_attention": 6}),
    "deberta-v2": ("DebertaV2", "DebertaV2Tokenizer", {
        "relative_attention": True, "share_att_key": True, "norm_rel_ebd": "layer_norm", "pos_att_type": "c2p|p2c",
        "position_buckets": 6, "position_biased_input": False, "type_vocab_size": 0}),
    "camembert": ("Camembert", "CamembertTokenizer", {"type_vocab_size": 1}),
    "mpnet": ("MPNet", "MPNetTokenizer", {}),
}
_THREE = {"id2label": {0: "no", 1: "maybe", 2: "yes"}, "label2id": {"no": 0, "maybe": 1, "yes": 2}}
# Head -> the class's ending, what its configuration has.
HEADS = {
    "base": ("Model", {}),
    "masked_lm": ("ForMaskedLM", {}),
    "pretraining": ("ForPreTraining", {}),
    "causal_lm": ("ForCausalLM", {"is_decoder": True}),
    "left_to_right": ("LMHeadModel", {"is_decoder": True}),
    "next_sentence": ("ForNextSentencePrediction", {}),
    "two_labels": ("ForSequenceClassification", {}),
    "one_label": ("ForSequenceClassification", {"problem_type": "single_label_classification", **_THREE}),
    "several_labels": ("ForSequenceClassification", {"problem_type": "multi_label_classification", **_THREE}),
    "regression": ("ForSequenceClassification", {"problem_type": "regression", "num_labels": 1}),
    "tokens": ("ForTokenClassification", {"id2label": {0: "O", 1: "B-X", 2: "I-X"}}),
    "questions": ("ForQuestionAnswering", {}),
    "choices": ("ForMultipleChoice", {}),
}


def cases():
    """Yields (name of the case, model_type, head, whether tokens were added)."""
    for model_type, (classes, _, _) in FAMILIES.items():
        if model_type == "deberta-v2" and transformers.__version__.startswith("5"):
            continue  # whose tokenizer normalizes otherwise; its files are refused
        for head, (ending, _) in HEADS.items():
            if hasattr(transformers, f"{classes}{ending}"):
                yield from ((f"{model_type} {head}{' added' * added}", model_type, head, added) for added in (0, 1))


def _sentencepiece(folder):
    """Returns the paths of unigram models, trained on a few sentences."""
    import sentencepiece

    texts = folder / "texts.txt"
    texts.write_text("\n".join(f"{' '.join(_WORDS)} {text.lower()}" for text in (*TEXTS, *PAIR) * 3), encoding="utf-8")
    options = {"vocab_size": 60, "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "hard_vocab_limit": False}
    paths = {}
    for name, special in (("albert", "[CLS],[SEP],[MASK]"), ("xlm", "")):
        own = {**options, "user_defined_symbols": special} if special else {
            **options, "unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
        own |= {"unk_piece": "<unk>"} | ({"pad_piece": "<pad>"} if special else {})
        sentencepiece.SentencePieceTrainer.train(
            input=str(texts), model_prefix=str(folder / name), minloglevel=2, num_threads=1, **own
        )
        paths[name] = folder / f"{name}.model"
    own = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "pad_piece": "[PAD]", "bos_piece": "[CLS]",
           "eos_piece": "[SEP]", "unk_piece": "[UNK]"}  # fmt: skip
    paths["deberta"] = folder / "deberta.model"
    sentencepiece.SentencePieceTrainer.train(
        input=str(texts), model_prefix=str(folder / "deberta"), minloglevel=2, num_threads=1, **{**options, **own}
    )
    return paths


def _tokenizers(folder):
    """Returns class -> a function that makes its tokenizer."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = folder / "vocab.txt"
    words.write_text("\n".join(dict.fromkeys((*special, *_WORDS, *_PIECES))) + "\n", encoding="utf-8")
    fairseq = folder / "fairseq.txt"
    around = ("<s>", "<pad>", "</s>", "<unk>", *special, *_WORDS, *_PIECES, "<mask>")
    fairseq.write_text("\n".join(dict.fromkeys(around)) + "\n", encoding="utf-8")
    symbols = _byte_symbols()
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("f", "i"), ("l", "m"), ("fi", "lm"), ("Ġ", "film")]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *symbols, *("".join(pair) for pair in merges), "<mask>"]
    vocab, lines = folder / "vocab.json", folder / "merges.txt"
    vocab.write_text(json.dumps({token: n for n, token in enumerate(tokens)}), encoding="utf-8")
    lines.write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges), encoding="utf-8")
    whole = folder / "tokenizer.json"
    modernbert_tokenizer.train([*TEXTS, *PAIR], 300).save(str(whole))
    models = _sentencepiece(folder)
    by_files = {"vocab.txt": words, "vocab.json": vocab, "albert": models["albert"], "xlm": models["xlm"],
                "deberta": models["deberta"], "tokenizer.json": whole, "fairseq.txt": fairseq}  # fmt: skip
    named = {"BertTokenizer": "vocab.txt", "DistilBertTokenizer": "vocab.txt", "ElectraTokenizer": "vocab.txt",
             "RobertaTokenizer": "vocab.json", "AlbertTokenizer": "albert", "XLMRobertaTokenizer": "xlm",
             "DebertaV2Tokenizer": "deberta", "PreTrainedTokenizerFast": "tokenizer.json",
             "CamembertTokenizer": "xlm", "MPNetTokenizer": "fairseq.txt"}  # fmt: skip
    return {kind: _maker(kind, by_files[file], lines, folder) for kind, file in named.items()}


def _maker(kind, file, merges, folder):
    """Returns a function without arguments; the class is the fast one, which AutoTokenizer takes, in either version."""
    names = {"BertTokenizer": "vocab.txt", "DistilBertTokenizer": "vocab.txt", "ElectraTokenizer": "vocab.txt",
             "RobertaTokenizer": "vocab.json", "AlbertTokenizer": "spiece.model",
             "XLMRobertaTokenizer": "sentencepiece.bpe.model", "DebertaV2Tokenizer": "spm.model",
             "PreTrainedTokenizerFast": "tokenizer.json", "CamembertTokenizer": "sentencepiece.bpe.model",
             "MPNetTokenizer": "vocab.txt"}  # fmt: skip
    home = folder / f"of {kind}"
    home.mkdir()
    (home / names[kind]).write_bytes(file.read_bytes())
    if kind == "RobertaTokenizer":
        (home / "merges.txt").write_bytes(merges.read_bytes())
    fast = getattr(transformers, f"{kind}Fast", None) or getattr(transformers, kind)
    own = ("unk_token", "cls_token", "sep_token", "pad_token", "mask_token")
    special = {}
    if kind == "PreTrainedTokenizerFast":  # ModernBERT's, whose files say that there are no segments
        special = dict(zip(own, modernbert_tokenizer.SPECIAL, strict=True))
        special["model_input_names"] = ["input_ids", "attention_mask"]
    return lambda: fast.from_pretrained(home, **special)


def _byte_symbols():
    """Returns the characters that stand for the 256 bytes in byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + n) for n in range(len(others))]


def _model(model_type, head, tokenizer, seed):
    classes, _, own = FAMILIES[model_type]
    ending, more = HEADS[head]
    kind = getattr(transformers, f"{classes}{ending}")
    shape = {**_SHAPE, **own, **more, "vocab_size": len(tokenizer) + 2, "pad_token_id": tokenizer.pad_token_id}
    if model_type == "distilbert":
        shape = {_TO_DISTILBERT.get(key, key): value for key, value in shape.items()}
    model = kind(kind.config_class(**shape, attn_implementation="eager")).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        is_scale = name.endswith(("LayerNorm.weight", "norm.weight"))
        weight.data = 1 + 0.3 * noise if is_scale else 0.3 * noise
    return model


def _encodings(tokenizer):
    return [*(tokenizer(text) for text in TEXTS), tokenizer(*PAIR)]


def _batch(tokenizer):
    batch = tokenizer.pad({name: [each[name] for each in _encodings(tokenizer)] for name in tokenizer("a")},
                          return_tensors="pt")  # fmt: skip
    return dict(batch)


def _outputs(model, batch):
    """Returns name -> float32 array of all that the class returns, and of its encoder."""
    many = {name: value[None] for name, value in batch.items()} if "MultipleChoice" in type(model).__name__ else batch
    with torch.inference_mode():
        base = getattr(model, model.base_model_prefix, model)(**batch)
        given = model(**many)
    found = {"sequence_output": base.last_hidden_state}
    if getattr(base, "pooler_output", None) is not None:
        found["pooled_output"] = base.pooler_output
    found |= {name: value for name, value in given.items() if name.endswith("logits")}
    return {name: value.float().numpy() for name, value in found.items()}


def _answers(model, tokenizer):
    """Returns [n, labels]: what the pipeline makes of the logits, in the order of the outputs."""
    ask = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None, device="cpu")
    names = model.config.label2id
    return np.array([[one["score"] for one in sorted(each, key=lambda one: names[one["label"]])]
                     for each in ask(list(TEXTS))])  # fmt: skip


def write(folder: pathlib.Path):
    folder.mkdir()
    sources = folder / "sources"
    sources.mkdir()
    makers = _tokenizers(sources)
    for seed, (name, model_type, head, added) in enumerate(cases()):
        tokenizer = makers[FAMILIES[model_type][1]]()
        if added:
            tokenizer.add_tokens(["[E1]", "covidology"])
            tokenizer.add_special_tokens({"additional_special_tokens": ["<ent>"]})
        model = _model(model_type, head, tokenizer, seed)
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        batch = _batch(tokenizer)
        found = {key: value.numpy() for key, value in batch.items()} | _outputs(model, batch)
        for n, each in enumerate(_encodings(tokenizer)):
            found[f"ids {n}"] = each["input_ids"]
            found |= {f"types {n}": each["token_type_ids"]} if "token_type_ids" in each else {}
        found |= {"texts": TEXTS, "pair": PAIR}
        if HEADS[head][0] == "ForSequenceClassification":
            found["answers"] = _answers(model, tokenizer)
        np.savez(folder / f"{name}.npz", **found)


def read(folder: pathlib.Path, back: pathlib.Path):
    faults = []
    for name, model_type, head, _ in cases():
        if not (back / name).is_dir():
            continue
        expected = np.load(folder / f"{name}.npz")
        tokenizer = transformers.AutoTokenizer.from_pretrained(back / name)
        kind = getattr(transformers, f"{FAMILIES[model_type][0]}{HEADS[head][0]}")
        model, info = kind.from_pretrained(back / name, output_loading_info=True, attn_implementation="eager")
        batch = {key: torch.tensor(expected[key]) for key in ("input_ids", "attention_mask", "token_type_ids")
                 if key in expected}  # fmt: skip
        found = _outputs(model.eval(), batch)
        mask = expected["attention_mask"] > 0
        for key, value in found.items():
            true = expected[key]
            if value.shape[:2] == mask.shape:
                value, true = value[mask], true[mask]
            if key == "pooled_output" and any("pooler" in each for each in info["missing_keys"]):
                continue  # random, as in every model of this class that has no use for it
            error = np.abs(value - true).max() / max(1, np.abs(true).max())
            faults += [f"{name}: {key} differs by {error:.2g}"] if error > 1e-5 else []
        for n, each in enumerate(_encodings(tokenizer)):
            if each["input_ids"] != expected[f"ids {n}"].tolist():
                faults.append(f"{name}: ids {n} {each['input_ids']} and not {expected[f'ids {n}'].tolist()}")
    print(json.dumps(faults))


_NO_KEYS = {"self", "kwargs", "args", "__slow_tokenizer"}


def _read_by(kind):
    """Returns the names that the constructors of a class and of those above it take, in `kwargs` too."""
    inits = [each.__init__ for each in kind.__mro__ if "__init__" in vars(each) and each is not object]
    named = {name for init in inits for name in inspect.signature(init).parameters}
    for init in inits:
        try:
            source = inspect.getsource(inspect.unwrap(init))
        except OSError:  # made by `dataclasses`
            continue
        named |= set(re.findall(r"kwargs\.(?:pop|get)\(\s*[\"'](\w+)", source))
    return named


def keys():
    """Prints {"version", "configurations": {model_type: keys}, "tokenizers": {class: keys}}."""
    configurations = {}
    for model_type, (classes, _, _) in FAMILIES.items():
        kind = getattr(transformers, f"{classes}Config")
        values = kind()
        attributes = [name for name in vars(values) if not name.startswith("_")]
        read = {*attributes, *values.to_dict(), *_read_by(kind), *kind.attribute_map} - _NO_KEYS
        configurations[model_type] = sorted(read)
    tokenizers = {}
    for name in {each for _, each, _ in FAMILIES.values()} | {"BertJapaneseTokenizer"}:
        read = set()
        for kind in filter(None, (getattr(transformers, f"{name}{end}", None) for end in ("", "Fast"))):
            read |= {*_read_by(kind), *getattr(kind, "SPECIAL_TOKENS_ATTRIBUTES", ())}
        tokenizers[name] = sorted(read - _NO_KEYS)
    print(json.dumps({"version": transformers.__version__, "configurations": configurations, "tokenizers": tokenizers}))


if __name__ == "__main__":
    {"write": write, "read": read, "keys": keys}[sys.argv[1]](*map(pathlib.Path, sys.argv[2:]))
