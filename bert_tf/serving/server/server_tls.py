"""Encryption of gRPC and REST, from the file of TensorFlow Serving's `--ssl_config_file`."""

import dataclasses
import os
import ssl
import tempfile

import grpc

from bert_tf.serving.server.text_configs import read_message

_FLAG = "ssl_config_file"


@dataclasses.dataclass(frozen=True)
class ServerTls:
    """TLS settings: the server's identity, and whether clients must authenticate.

    Attributes:
        key: its private key, PEM.
        certificate: its chain of certificates, PEM.
        authorities: certificates of the authorities for clients, PEM.
        verify: whether clients must present a certificate signed by one of them.
    """

    key: str = dataclasses.field(repr=False)
    certificate: str
    authorities: str = ""
    verify: bool = False

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Returns the server credentials for gRPC."""
        pair = (self.key.encode(), self.certificate.encode())
        return grpc.ssl_server_credentials([pair], self.authorities.encode() or None, self.verify)

    def context(self) -> ssl.SSLContext:
        """Returns the SSL context for REST.

        Raises:
            ValueError: the key does not belong to the certificate, or one of them is damaged.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            with tempfile.TemporaryDirectory() as folder:  # Python's TLS only reads keys from files; keep them private
                file = os.path.join(folder, "pair.pem")
                with open(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w", encoding="ascii") as pair:
                    pair.write(f"{self.key.strip()}\n{self.certificate.strip()}\n")
                context.load_cert_chain(file)
            if self.verify:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(cadata=self.authorities)
        except (OSError, UnicodeEncodeError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ValueError(
                f"`{_FLAG}` must have a private key in PEM and its certificates: {error}."
            ) from error
        return context


def read_tls(path: str) -> ServerTls:
    """Reads the SSLConfig in the text file `path`.

    Raises:
        ValueError: it cannot be read, lacks the key or the certificate, or they do not match.
    """
    config = read_message(path, "SSLConfig", _FLAG)
    missing = [name for name in ("server_key", "server_cert") if not getattr(config, name)]
    if missing:
        raise ValueError(
            f"`{_FLAG}` must have a server_key and a server_cert, both in PEM. {path} lacks "
            f"{' and '.join(missing)}."
        )
    if config.client_verify and not config.custom_ca:
        raise ValueError(f"`{_FLAG}` must have a custom_ca if client_verify is true; {path} has no custom_ca.")
    tls = ServerTls(config.server_key, config.server_cert, config.custom_ca, config.client_verify)
    tls.context()  # gRPC would accept a mismatched pair, and then reject every client
    return tls
