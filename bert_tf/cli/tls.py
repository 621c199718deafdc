"""TLS for the commands that query a server."""

import dataclasses

from bert_tf.serving.client.settings import TlsFiles, TlsSettings
from bert_tf.utils.settings import options_of


def tls_of(settings: TlsSettings):
    """Returns the `Tls` that the flags specify; None for an unencrypted connection."""
    from bert_tf.serving import Tls

    is_encrypted = settings.tls or any(getattr(settings, field.name) for field in dataclasses.fields(TlsFiles))
    return options_of(Tls, settings) if is_encrypted else None
