"""TLS for the commands that query a server."""

from bert_tf.serving.client.settings import TlsFiles
from bert_tf.utils.settings import Settings, flags_of, options_of


def tls_of(settings: Settings):
    """Returns the `Tls` that the flags specify; None for an unencrypted connection."""
    from bert_tf.serving import Tls

    is_encrypted = settings.tls or any(settings.get(flag.name) for flag in flags_of(TlsFiles))
    return options_of(Tls, settings) if is_encrypted else None
