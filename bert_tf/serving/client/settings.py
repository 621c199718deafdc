"""Settings of connections to a server. Imports neither TensorFlow nor gRPC, so that `--help` is fast."""

import dataclasses
from typing import ClassVar

from bert_tf.utils.settings import option


@dataclasses.dataclass(frozen=True)
class TlsFiles:
    """The files of `Tls`, all PEM."""

    GROUP: ClassVar[str] = "Server and requests"

    root_file: str | None = option(None, "Certificates (PEM) to trust; encrypts the connection.", name="tls_root_file")
    key_file: str | None = option(
        None,
        "Private key (PEM) with which this client authenticates itself.",
        name="tls_key_file",
    )
    certificate_file: str | None = option(
        None,
        "Certificate (PEM) that belongs to --tls_key_file.",
        name="tls_certificate_file",
    )


@dataclasses.dataclass(frozen=True)
class TlsSettings(TlsFiles):
    """Encryption of a connection."""

    GROUP: ClassVar[str] = "Server and requests"

    tls: bool = option(False, "Encrypt the connection, and trust the certificate authorities that come with gRPC.")


@dataclasses.dataclass(frozen=True)
class ConnectionSettings(TlsSettings):
    """Server and model to query."""

    GROUP: ClassVar[str] = "Server and requests"

    server: str = option(
        "localhost:8500",
        "gRPC address of the server: host:port, such as [::1]:8500, or unix:PATH if it listens on a socket.",
    )
    model_name: str = option("default", "Name of the model on the server.")
    timeout: float = option(10.0, "Request timeout in seconds.", low=0)
