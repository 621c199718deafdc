"""What type checkers and editors read instead of __init__.py, which imports each name when it is first used."""

from bert_tf import interpret as inspect
from bert_tf import lite, sklearn
from bert_tf.checkpoints.loading import Bert, load
from bert_tf.export.conversion.convert import save
from bert_tf.export.hub.layer import HubLayer
from bert_tf.export.hub.tokenizer_layer import TokenizerLayer
from bert_tf.inference.predictor import Predictor
from bert_tf.inference.reranker import Reranker
from bert_tf.inference.search import SearchIndex
from bert_tf.inference.sentence_encoder import SentenceEncoder
from bert_tf.inference.zero_shot import ZeroShot
from bert_tf.interpret.page import visualize
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.runs.export_model import export_model
from bert_tf.runs.finetune import evaluate, finetune
from bert_tf.runs.pretrain import pretrain
from bert_tf.serving.client.async_client import AsyncClient
from bert_tf.serving.client.client import Client
from bert_tf.tokenization.wordpiece import WordPieceTokenizer

__version__: str
__all__ = [
    "AsyncClient", "Bert", "Client", "Encoder", "EncoderConfig", "HubLayer", "Predictor", "Reranker", "SearchIndex",
    "SentenceEncoder", "TokenizerLayer", "WordPieceTokenizer", "ZeroShot", "evaluate", "export_model", "finetune",
    "inspect", "lite", "load", "pretrain", "save", "sklearn", "visualize",
]  # fmt: skip
