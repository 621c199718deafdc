"""Both faces encrypted, by the file that TensorFlow Serving reads; certificates are made for the test."""

import datetime
import http.client
import ipaddress
import json
import os
import ssl
import stat

import grpc
import pytest
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from bert_tf.serving.server.server_tls import read_tls
from tests.serving.models import serve_quickly

x509 = pytest.importorskip("cryptography.x509", reason="needs the package cryptography, to make certificates")

_SIGNS_CERTIFICATES = x509.KeyUsage(*[False] * 5, True, *[False] * 3)


class Authority:
    """Signs certificates for names, and its own."""

    def __init__(self, name):
        self.name, self.key = name, _key()
        self.certificate = self._sign(name, self.key, None)
        self.pem = _pem(self.certificate)

    def pair(self, name, address=None):
        """Returns (key, certificate) for `name`, PEM."""
        from cryptography.hazmat.primitives import serialization

        key = _key()
        written = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return written.decode(), _pem(self._sign(name, key, address))

    def _sign(self, name, key, address):
        from cryptography.hazmat.primitives import hashes

        now = datetime.datetime.now(datetime.timezone.utc)
        day = datetime.timedelta(days=1)
        own = name == self.name
        builder = x509.CertificateBuilder(
            _name(self.name), _name(name), key.public_key(), x509.random_serial_number(), now - day, now + day
        ).add_extension(x509.BasicConstraints(own, None), critical=True)
        issuer, subject = (each.public_key() for each in (self.key, key))
        # Python 3.13 and later want all of these.
        extensions = [x509.SubjectKeyIdentifier.from_public_key(subject)]
        extensions += [_SIGNS_CERTIFICATES] if own else [x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer)]
        if address:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(address))]
            extensions.append(x509.SubjectAlternativeName(names))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.KeyUsage))
        return builder.sign(self.key, hashes.SHA256())


def _key():
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(name):
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _pem(certificate):
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM).decode()


@pytest.fixture(scope="module")
def authority():
    return Authority("tests")


@pytest.fixture(scope="module")
def pair(authority):
    return authority.pair("server", "127.0.0.1")


def write(folder, **fields):
    """Writes an SSLConfig; returns its path."""
    lines = [f"{name}: {str(value).lower() if isinstance(value, bool) else json.dumps(value)}\n"
             for name, value in fields.items()]  # fmt: skip
    file = folder / "ssl.config"
    file.write_text("".join(lines))
    return str(file)


def over_grpc(server, root, key=None, certificate=None):
    mine = (key.encode(), certificate.encode()) if key else (None, None)
    credentials = grpc.ssl_channel_credentials(root.encode(), *mine)
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "film"
    with grpc.secure_channel(f"127.0.0.1:{server.port}", credentials) as channel:
        stub = model_service_pb2_grpc.ModelServiceStub(channel)
        return stub.GetModelStatus(request, timeout=20).model_version_status[0].version


def over_rest(server, root, folder=None, key=None, certificate=None):
    context = ssl.create_default_context(cadata=root)
    if key:
        file = folder / "caller.pem"
        file.write_text(key + certificate)
        context.load_cert_chain(str(file))
    connection = http.client.HTTPSConnection("127.0.0.1", server.rest_port, context=context, timeout=20)
    try:
        connection.request("GET", "/v1/models/film")
        return int(json.loads(connection.getresponse().read())["model_version_status"][0]["version"])
    finally:
        connection.close()


def test_both_faces_are_encrypted(film_path, tmp_path, authority, pair):
    tls = read_tls(write(tmp_path, server_key=pair[0], server_cert=pair[1]))
    with serve_quickly(film_path, tls=tls) as server:
        assert over_grpc(server, authority.pem) == over_rest(server, authority.pem) == 3
        stranger = Authority("strangers")
        with pytest.raises(grpc.RpcError):
            over_grpc(server, stranger.pem)
        with pytest.raises(ssl.SSLError):
            over_rest(server, stranger.pem)
        plain = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60)
        plain.request("GET", "/v1/models/film")
        with pytest.raises((OSError, http.client.HTTPException)):
            plain.getresponse()
        plain.close()


def test_callers_must_say_who_they_are_where_that_is_asked(film_path, tmp_path, authority, pair):
    file = write(tmp_path, server_key=pair[0], server_cert=pair[1], custom_ca=authority.pem, client_verify=True)
    known, unknown = authority.pair("caller"), Authority("strangers").pair("caller")
    with serve_quickly(film_path, tls=read_tls(file)) as server:
        assert over_grpc(server, authority.pem, *known) == 3
        assert over_rest(server, authority.pem, tmp_path, *known) == 3
        for pair_or_none in ((), unknown):
            with pytest.raises(grpc.RpcError):
                over_grpc(server, authority.pem, *pair_or_none)
            with pytest.raises(OSError):
                over_rest(server, authority.pem, tmp_path, *pair_or_none)


def test_files_that_cannot_be_used_are_refused(tmp_path, authority, pair):
    key, certificate = pair
    other, _ = authority.pair("other")
    for fields, words in (
        ({"server_key": key}, "must have a server_key and a server_cert.*lacks server_cert"),
        ({}, "must have a server_key and a server_cert.*lacks server_key and server_cert"),
        ({"server_key": other, "server_cert": certificate}, "must have a private key in PEM and its certificates: .+"),
        ({"server_key": "x", "server_cert": "é"}, "must have a private key in PEM and its certificates: .+"),
        ({"server_key": key, "server_cert": certificate, "client_verify": True}, "must have a custom_ca"),
        ({"servr_key": key}, "must be a file with the message SSLConfig"),
    ):
        with pytest.raises(ValueError, match=f"`ssl_config_file` .*{words}"):
            read_tls(write(tmp_path, **fields))


def test_the_key_shows_nowhere(tmp_path, pair, monkeypatch):
    modes = []
    load = ssl.SSLContext.load_cert_chain

    def looked_at(self, file):
        modes.append(stat.S_IMODE(os.stat(file).st_mode))
        load(self, file)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", looked_at)
    tls = read_tls(write(tmp_path, server_key=pair[0], server_cert=pair[1]))
    assert modes == [0o600] and "PRIVATE" not in repr(tls)
