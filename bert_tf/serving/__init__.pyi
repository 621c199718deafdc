"""What type checkers and editors read instead of __init__.py, which imports each name when it is first used."""

from bert_tf.serving.client.channel import Retry, Tls
from bert_tf.serving.client.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "Retry", "Tls"]
