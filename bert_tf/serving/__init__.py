"""Serving over TensorFlow Serving's protocol: `server` serves any SavedModel, `client` queries any such server."""

__all__ = ["AsyncClient", "Client", "Retry", "Tls"]

_HOMES = {
    "AsyncClient": "bert_tf.serving.client.async_client",
    "Client": "bert_tf.serving.client.client",
    "Retry": "bert_tf.serving.client.channel",
    "Tls": "bert_tf.serving.client.channel",
}


def __getattr__(name):
    """Imports a public name on first use: the server's modules need TensorFlow, the client's do not."""
    if name not in __all__:
        raise AttributeError(f"module 'bert_tf.serving' has no attribute {name!r}; it has {__all__}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
