"""Proxies of the environment, which no connection to this machine uses."""

import os
import re
import urllib.request

import pytest

from bert_tf.utils import proxies
from tests.conftest import ROOT

NONE = {name: None for name in ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy", "NO_PROXY")}
DEAD = "http://me:secret@127.0.0.1:9"


@pytest.fixture
def environment(monkeypatch):
    """environment(**variables): sets them, and no others about proxies."""

    def use(**variables):
        for name, value in (NONE | variables).items():
            monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)

    use()
    return use


@pytest.mark.parametrize("server", [
    "localhost:8500", "LOCALHOST:8500", "localhost.:8500", "a.localhost:8500", "localhost.localdomain:1", "localhost",
    "127.0.0.1:8500", "127.8.9.1:80", "127.0.0.1", "0.0.0.0:8500", "[::1]:8500", "[::1]", "[::]:8500",
    "[::ffff:127.0.0.1]:8500", "dns:///localhost:8500", "dns://8.8.8.8/localhost:80", "dns:localhost:80",
    "ipv4:127.0.0.1:8500", "ipv4:127.0.0.1:1,127.0.0.2:2", "ipv6:[::1]:8500", "unix:/a/b:c", "unix:///a", "vsock:1:2",
])  # fmt: skip
def test_no_proxy_is_on_the_way_to_this_machine(environment, server):
    environment(http_proxy=DEAD, https_proxy=DEAD, grpc_proxy=DEAD)
    assert proxies.is_direct(server) and not proxies.describe_proxy(server)


@pytest.mark.parametrize("server", [
    "models:8500", "localhost.example.com:8500", "10.0.0.1:8500", "128.0.0.1:80", "[2001:db8::7]:8500", "notlocalhost",
    "dns:///models:8500", "ipv4:127.0.0.1:1,10.0.0.1:2", "models",
])  # fmt: skip
def test_other_machines_are_reached_through_it(environment, server):
    assert not proxies.describe_proxy(server)
    environment(https_proxy=DEAD)
    assert not proxies.is_direct(server)
    found = proxies.describe_proxy(server)
    assert "the proxy 127.0.0.1:9 from the environment variable https_proxy" in found and "secret" not in found


@pytest.mark.parametrize(("variables", "exempt"), [
    ({"no_proxy": "a.example,models.corp"}, ["models.corp"]),
    ({"no_proxy": "a.example, .CORP"}, ["models.corp"]),
    ({"no_proxy": "*"}, ["models.corp", "10.1.2.3"]),
    ({"NO_PROXY": "models.corp"}, ["models.corp"]),
    ({"no_grpc_proxy": "other", "no_proxy": "models.corp"}, []),
    ({"no_proxy": "models,,x/y"}, []),
    ({"no_proxy": "10.0.0.0/8"}, ["10.1.2.3"]),
])  # fmt: skip
def test_hosts_are_exempt_as_in_grpc(environment, variables, exempt):
    environment(http_proxy=DEAD, **variables)
    for host in ("models.corp", "10.1.2.3"):
        found = proxies.describe_proxy(f"{host}:8500")
        assert proxies.is_direct(f"{host}:8500") is (host in exempt)
        assert found.endswith(f" add {host} to {next(iter(variables))}.") is (host not in exempt)


@pytest.mark.parametrize("value", ["", "127.0.0.1:9", "socks5://127.0.0.1:9", "https://127.0.0.1:9"])
def test_a_proxy_that_grpc_does_not_take_is_not_named(environment, value):
    environment(grpc_proxy=value, https_proxy=DEAD)
    assert not proxies.describe_proxy("models:8500")


@pytest.mark.parametrize(("variables", "found"), [
    ({}, {"no_proxy": ""}),
    ({"NO_PROXY": "a,b"}, {"no_proxy": "a,b,"}),
    ({"no_proxy": "a,localhost", "no_grpc_proxy": "c"}, {"no_proxy": "a,localhost,", "no_grpc_proxy": "c,"}),
])  # fmt: skip
def test_other_libraries_find_this_machine_exempt(environment, variables, found):
    environment(http_proxy=DEAD, **variables)
    for _ in range(2):  # again, it changes nothing
        proxies.exempt_local()
        assert {name: os.environ.get(name) for name in ("no_proxy", "no_grpc_proxy") if name in os.environ} == {
            name: text + ",".join(host for host in proxies._LOCAL if host not in text.split(","))
            for name, text in found.items()
        }
    assert urllib.request.proxy_bypass("localhost") and urllib.request.proxy_bypass("127.0.0.1")
    assert not urllib.request.proxy_bypass("models")


@pytest.mark.parametrize("variable", ["no_proxy", "NO_PROXY"])
def test_a_list_that_exempts_all_hosts_still_does(environment, variable):
    environment(http_proxy=DEAD, **{variable: "*"})
    proxies.exempt_local()
    assert urllib.request.proxy_bypass("models") and proxies.is_direct("models:8500")
    assert {*proxies._LOCAL} < {*os.environ[proxies._exemption()].split(",")}  # gRPC does not know "*"


def test_no_other_file_opens_connections():
    opened = re.compile(r"\burlopen\(|secure_channel\(|HTTPS?Connection\(")
    found = [path for path in (ROOT / "bert_tf").rglob("*.py") if opened.search(path.read_text("utf-8"))]
    assert found == [ROOT / "bert_tf" / "serving" / "client" / "channel.py"], "`open_local` and `open_channel` do"
