"""Encryption of both faces, from the file that TensorFlow Serving's `--ssl_config_file` names."""

import dataclasses
import os
import ssl
import tempfile

import grpc

from bert_tf.serving.server import text_configs

_FLAG = "ssl_config_file"


@dataclasses.dataclass(frozen=True)
class Tls:
    """Who the server is, and whether callers must say who they are.

    Attributes:
        key: its private key, PEM.
        certificate: its chain of certificates, PEM.
        authorities: certificates of those who vouch for callers, PEM.
        verify: whether a caller must show a certificate that one of them has signed.
    """

    key: str = dataclasses.field(repr=False)
    certificate: str
    authorities: str = ""
    verify: bool = False

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Returns what gRPC's port takes."""
        pair = (self.key.encode(), self.certificate.encode())
        return grpc.ssl_server_credentials([pair], self.authorities.encode() or None, self.verify)

    def context(self) -> ssl.SSLContext:
        """Returns what REST's port takes.

        Raises:
            ValueError: the key does not belong to the certificate, or one of them is damaged.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            with tempfile.TemporaryDirectory() as folder:  # Python's TLS reads keys from files alone; nobody else may
                file = os.path.join(folder, "pair.pem")
                with open(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w", encoding="ascii") as pair:
                    pair.write(f"{self.key.strip()}\n{self.certificate.strip()}\n")
                context.load_cert_chain(file)
            if self.verify:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(cadata=self.authorities)
        except (OSError, UnicodeEncodeError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ValueError(
                f"`{_FLAG}` must hold a private key in PEM and the certificates that belong to it. Received: {error}."
            ) from error
        return context


def read_tls(path: str) -> Tls:
    """Returns what the SSLConfig in the text file `path` says.

    Raises:
        ValueError: it cannot be read, lacks the key or the certificate, or they do not fit.
    """
    config = text_configs.read(path, "SSLConfig", _FLAG)
    missing = [name for name in ("server_key", "server_cert") if not getattr(config, name)]
    if missing:
        raise ValueError(
            f"`{_FLAG}` must have a server_key and a server_cert, both in PEM. Received: {path} without "
            f"{' and '.join(missing)}."
        )
    if config.client_verify and not config.custom_ca:
        raise ValueError(f"`{_FLAG}` must have a custom_ca where client_verify is true. Received: {path} without one.")
    tls = Tls(config.server_key, config.server_cert, config.custom_ca, config.client_verify)
    tls.context()  # gRPC would take a wrong pair, and refuse every caller
    return tls
