"""IPv6: a server that listens there, what it says of itself, and who asks it."""

import asyncio
import http.client
import json
import re
import socket

import pytest

from bert_tf.serving import AsyncClient, Client, addresses
from bert_tf.serving.client.load_calls import inputs_over_rest
from tests.serving.models import serve_quickly
from tests.serving.requests import GOOD, MODEL
from tests.serving.server_process import running


def _has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")


@pytest.mark.parametrize(("host", "joined", "is_ip", "is_everywhere"), [
    ("127.0.0.1", "127.0.0.1:85", True, False),
    ("0.0.0.0", "0.0.0.0:85", True, True),
    ("localhost", "localhost:85", False, False),
    ("::1", "[::1]:85", True, False),
    ("[::1]", "[::1]:85", True, False),
    ("::", "[::]:85", True, True),
    ("[::]", "[::]:85", True, True),
    ("2001:db8::7", "[2001:db8::7]:85", True, False),
])  # fmt: skip
def test_an_ipv6_address_stands_in_brackets(host, joined, is_ip, is_everywhere):
    assert addresses.join_address(host, 85) == joined
    assert addresses.is_ip(addresses.bare(host)) is is_ip
    assert addresses.is_everywhere(host) is is_everywhere


@pytest.mark.parametrize("server", ["::1", "::1:8500", "2001:db8::7:8500", "fe80::1:8500"])
def test_where_the_port_of_an_address_begins_must_be_plain(server):
    with pytest.raises(ValueError, match=re.escape(f"needs brackets, and a port after them; "
                                                   f"got {server!r}. Write [::1]:8500")):  # fmt: skip
        Client(server, "film")
    with pytest.raises(ValueError, match="An IPv6 address in `server` needs brackets"):
        inputs_over_rest(server, "film", "", 60)


@pytest.mark.parametrize("server", ["[::1]:8500", "localhost:8500", "127.0.0.1:8500", "unix:/a:b:c", "dns:///a:8500",
                                    "ipv6:[::1]:8500"])  # fmt: skip
def test_other_addresses_are_grpcs_to_judge(server):
    addresses.check_target(server)


@needs_ipv6
@pytest.mark.parametrize("host", ["::1", "[::1]", "::"])
def test_both_faces_listen_on_ipv6(film_path, host):
    with serve_quickly(film_path, host=host) as server:
        with Client(f"[::1]:{server.port}", "film") as client:
            assert client.classify(["a fine film"])[0]["label"] == "good"

        async def ask():
            async with AsyncClient(f"[::1]:{server.port}", "film") as client:
                return await client.classify(["a fine film"])

        assert asyncio.run(ask())[0]["label"] == "good"
        reached = ["::1", "127.0.0.1"] if host == "::" else ["::1"]
        for address in reached:
            connection = http.client.HTTPConnection(address, server.rest_port, timeout=60)
            connection.request("POST", f"{MODEL}:predict", b'{"instances": ["fine"]}')
            response = connection.getresponse()
            assert (response.status, json.load(response)) == (200, {"predictions": [GOOD]})
            connection.close()
        assert inputs_over_rest(f"[::1]:{server.rest_port}", "film", "pair", 60) == ("text_a", "text_b")


@needs_ipv6
def test_a_port_that_is_taken_is_named_with_its_address(film_path):
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        for more in ({"port": port}, {"rest_api_port": port}):
            with pytest.raises(ValueError, match=re.escape(f"address [::1]:{port}")):
                serve_quickly(film_path, host="::1", **more)


@pytest.mark.slow
@needs_ipv6
def test_the_log_says_where_it_listens(film_path, tmp_path):
    with running(film_path, tmp_path / "log", "--host=::1", "--ui") as server:
        pass
    log = server.log()  # of the whole run: the second line is written after the server answers
    assert f"gRPC on [::1]:{server.port}, REST on http://[::1]:{server.rest_port}/v1/models/film" in log
    assert f"Page for trying the models: http://[::1]:{server.rest_port}/" in log
