"""How programs that ask a server reach it."""

_FILES = ("root_file", "key_file", "certificate_file")  # of `serving.Tls`; the flags have a prefix


def tls_of(settings):
    """Returns the `serving.Tls` that the flags ask for, None for a connection that is not encrypted."""
    from bert_tf.serving import Tls

    files = {name: settings.get(f"tls_{name}") for name in _FILES}
    return Tls(**files) if settings.tls or any(files.values()) else None
