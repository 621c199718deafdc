"""Fine-tune, evaluate and serve BERT-family models on Keras 3 and TensorFlow.

    run = bert_tf.finetune("classification", train=frame, init_checkpoint="demo/weights/minilm")  # your task
    label = bert_tf.Predictor("models/reviews")("A warm, funny film.")["label"]  # a trained or an exported model
    bert = bert_tf.load("demo/weights/minilm")  # a directory: configuration, tokenizer, Keras encoder, head
    vectors = bert_tf.SentenceEncoder("demo/weights/minilm")(["A warm film.", "It rains."])  # float32 [2, 384]

docs/reference/python_api.md lists all public names.
"""

from bert_tf.utils import keras_names, onednn

__version__ = "0.2.0"
__all__ = [
    "AsyncClient", "Bert", "Client", "Encoder", "EncoderConfig", "HubLayer", "Predictor", "Reranker", "SearchIndex",
    "SentenceEncoder", "TokenizerLayer", "WordPieceTokenizer", "ZeroShot", "evaluate", "export_model", "finetune",
    "inspect", "lite", "load", "pretrain", "save", "sklearn", "visualize",
]  # fmt: skip

_HOMES = {
    "AsyncClient": "bert_tf.serving.client.async_client",
    "Bert": "bert_tf.checkpoints.loading",
    "Client": "bert_tf.serving.client.client",
    "EncoderConfig": "bert_tf.models.config",
    "Encoder": "bert_tf.models.encoder",
    "HubLayer": "bert_tf.export.hub.layer",
    "Predictor": "bert_tf.inference.predictor",
    "Reranker": "bert_tf.inference.reranker",
    "SearchIndex": "bert_tf.inference.search",
    "SentenceEncoder": "bert_tf.inference.sentence_encoder",
    "TokenizerLayer": "bert_tf.export.hub.tokenizer_layer",
    "WordPieceTokenizer": "bert_tf.tokenization.wordpiece",
    "ZeroShot": "bert_tf.inference.zero_shot",
    "evaluate": "bert_tf.runs.finetune",
    "export_model": "bert_tf.runs.export_model",
    "finetune": "bert_tf.runs.finetune",
    "load": "bert_tf.checkpoints.loading",
    "pretrain": "bert_tf.runs.pretrain",
    "save": "bert_tf.export.conversion.convert",
    "visualize": "bert_tf.interpret.page",
}
_OLD_NAMES = {"Tokenizer": "WordPieceTokenizer"}
_MODULES = {"inspect": "bert_tf.interpret", "lite": "bert_tf.lite", "sklearn": "bert_tf.sklearn"}

keras_names.announce()
onednn.turn_on()


def __getattr__(name):
    """Imports a public name when it is first asked for, so that `import bert_tf` needs no TensorFlow."""
    if name in _OLD_NAMES:
        from bert_tf.utils.old_names import find_renamed

        return find_renamed(__name__, _OLD_NAMES, name)
    if name not in __all__:
        raise AttributeError(f"module 'bert_tf' has no attribute {name!r}; it has {__all__}")
    from importlib import import_module

    if name != "lite":  # which needs neither TensorFlow nor Keras
        import_module("bert_tf.utils.requirements").check()
    value = import_module(_MODULES[name]) if name in _MODULES else getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
