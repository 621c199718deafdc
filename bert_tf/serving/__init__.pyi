"""What type checkers and editors read instead of __init__.py, which imports each name when it is first used."""

from bert_tf.serving.client.async_client import AsyncClient
from bert_tf.serving.client.channel import Retry, Tls
from bert_tf.serving.client.client import Client

__all__ = ["AsyncClient", "Client", "Retry", "Tls"]
