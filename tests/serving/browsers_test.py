"""What a page in a browser may ask: by which name of the server, and from where; addresses of IPv6."""

import json
import socket
import urllib.request

import numpy as np
import pytest

from bert_tf.serving import Client
from bert_tf.serving.options import address
from bert_tf.serving.server import serve
from tests.serving.http_test import GET, post, send

BODY = b'{"instances": ["fine"]}'
LENGTH = f"Content-Length: {len(BODY)}"


def asked_as(host, *headers):
    return post(LENGTH, *headers).replace(b"Host: localhost", f"Host: {host}".encode())


@pytest.fixture(scope="module")
def named(film_path):
    options = {"rest_api_port": 0, "poll_seconds": 0, "allowed_hosts": ["bert.example.com"]}
    with serve(str(film_path), "film", **options) as server:
        yield server


@pytest.mark.parametrize(
    ("host", "here", "there"),
    [
        ("localhost:8501", 200, 403),
        ("LOCALHOST", 200, 403),
        ("127.0.0.1:1", 200, 200),
        ("[::1]:8501", 200, 200),
        ("10.1.2.3", 200, 200),  # an address cannot be pointed elsewhere
        ("evil.example.com", 403, 403),
        ("evil.example.com:8501", 403, 403),
        ("bert.example.com:443", 403, 200),
        ("localhost.evil.com", 403, 403),
    ],
)
def test_the_name_by_which_a_server_is_asked(film, named, host, here, there):
    """`here` is a server with the default, `there` one that is told its names."""
    for server, status in ((film, here), (named, there)):
        assert send(server, asked_as(host))[0] == status
        assert send(server, GET.format("/healthz").replace("localhost", host).encode())[0] == status


def test_the_message_says_which_setting_it_is(film):
    status, _, body = send(film, asked_as("evil.example.com"))
    message = "This server is not asked by the name evil.example.com; allowed_hosts lists its names"
    assert (status, json.loads(body)) == (403, {"error": message})


def test_a_server_for_all_addresses_takes_any_name(film_path):
    with serve(str(film_path), "film", host="0.0.0.0", poll_seconds=0) as server:
        assert send(server, asked_as("bert"))[0] == 200
    with serve(str(film_path), "film", host="0.0.0.0", poll_seconds=0, allowed_hosts=["a"]) as server:
        assert [send(server, asked_as(host))[0] for host in ("a", "bert")] == [200, 403]
    with serve(str(film_path), "film", poll_seconds=0, allowed_hosts=["*"]) as server:
        assert send(server, asked_as("bert"))[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Content-Type: text/plain"], 200),  # curl, and clients of TensorFlow Serving
        (["Origin: http://evil.example.com", "Content-Type: text/plain"], 415),
        (["Origin: http://evil.example.com"], 415),
        (["Origin: null", "Content-Type: application/x-www-form-urlencoded"], 415),
        (["Origin: http://evil.example.com", "Content-Type: application/json"], 200),  # browsers ask first
        (["Origin: http://localhost"], 200),  # the server's own page
        (["Origin: http://LOCALHOST", "Content-Type: text/plain"], 200),
    ],
)
def test_a_page_from_elsewhere_must_ask_first(film, headers, status):
    assert send(film, post(LENGTH, *headers))[0] == status


def test_ipv6_over_both_faces(film_path):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"needs ::1 on this machine: {error}")
    for host in ("::1", "[::1]"):
        with serve(str(film_path), "film", host=host, poll_seconds=0) as server:
            url = f"http://{address(host, server.rest_port)}/v1/models/film:predict"
            with urllib.request.urlopen(url, BODY, timeout=60) as response:
                assert json.load(response)["predictions"][0]["label"] == "good"
            with Client(address(host, server.port), "film") as client:
                np.testing.assert_allclose(client.predict({"text": ["fine"]})["probabilities"], [[0.25, 0.75]])
    assert address("::1", 8500) == address("[::1]", 8500) == "[::1]:8500" and address("a", 1) == "a:1"
