"""Browsers: a server is asked by its own name alone, and by pages of its own, unless more is permitted."""

import json

import pytest

from tests.serving.http_test import send
from tests.serving.models import serve_quickly
from tests.serving.requests import GOOD, MODEL

BODY = b'{"instances": ["fine"]}'
EVIL = "http://evil.example"


def request(*headers, method="POST", path=f"{MODEL}:predict", version="1.1", body=BODY):
    lines = [f"{method} {path} HTTP/{version}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def status_of(server, *headers, **more):
    """Returns the status, and the error or the predictions."""
    status, _, reply = send(server, request(*headers, **more))
    return status, next(iter(json.loads(reply).values()), None) if reply else ""


HOSTS = {
    "localhost": 200,
    "LOCALHOST:80": 200,
    "localhost.": 200,
    "127.0.0.1:8501": 200,
    "127.0.0.1": 200,
    "[::1]": 200,
    "[::1]:8501": 200,
    "192.0.2.7:8501": 200,  # an address: no name leads there
    "evil.example": 421,
    "evil.example:8501": 421,
    "localhost.evil.example": 421,
    "127.0.0.1.evil.example": 421,
    "127.0.0.1evil": 421,
    "models.example.com": 421,
    "": 400,
    "a b": 400,
    "localhost, evil.example": 400,
    "evil.example@localhost": 400,
    "localhost:x": 400,
    "::1": 400,
    "[localhost]": 400,
}


@pytest.mark.parametrize("host", HOSTS)
def test_a_request_for_another_name_is_refused(film, host):
    status, found = status_of(film, f"Host: {host}")
    assert status == HOSTS[host]
    if status == 421:
        name = host.partition(":")[0]
        assert found == (
            "Use this server's IP address, localhost, or a name in its allowed_hosts; the request was "
            f"for {name}"
        )
    elif status == 200:
        assert found == [GOOD]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", MODEL, f"{MODEL}/metadata", "/v1/models/nobody", "/"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_nothing_is_told_under_another_name(film, path, method):
    assert status_of(film, "Host: evil.example", method=method, path=path, body=b"")[0] == 421


def test_one_host_must_be_there_unless_the_protocol_is_old(film):
    assert status_of(film) == (400, "Malformed HTTP: Missing 'Host' header in request.")
    assert status_of(film, version="1.0") == (200, [GOOD])
    for hosts in (["localhost", "localhost"], ["localhost", "evil.example"], ["evil.example", "localhost"]):
        assert status_of(film, *(f"Host: {host}" for host in hosts))[0] == 400


def test_a_host_of_thousands_of_characters_is_not_sent_back(film):
    status, message = status_of(film, f"Host: {'a' * 8000}")
    assert status == 421 and len(message) < 300


def test_names_may_be_given(film_path):
    with serve_quickly(film_path, allowed_hosts=["Models.Example.com", "models"]) as server:
        for host in ("models.example.com:443", "models", "localhost", "10.1.2.3"):
            assert status_of(server, f"Host: {host}") == (200, [GOOD])
        assert status_of(server, "Host: example.com")[0] == 421


@pytest.mark.parametrize(("options", "status"), [
    ({"host": "0.0.0.0"}, 200),
    ({"host": "0.0.0.0", "allowed_hosts": ["models"]}, 421),
    ({"host": "0.0.0.0", "allowed_hosts": ["models", "*"]}, 200),
    ({"allowed_hosts": ["*"]}, 200),
    ({"host": "localhost"}, 421),
], ids=str)  # fmt: skip
def test_any_name_will_do_where_the_server_listens_everywhere_and_nobody_said_more(film_path, options, status):
    with serve_quickly(film_path, **options) as server:
        assert status_of(server, "Host: balancer.example")[0] == status
        assert status_of(server, "Host: localhost")[0] == 200


@pytest.mark.parametrize("name", ["https://models.example.com", "models:8501", "a b", "", "*.example.com", "a,b"])
def test_an_allowed_host_that_is_no_name_is_refused(film_path, name):
    with pytest.raises(ValueError, match="`allowed_hosts` must be names of this server"):
        serve_quickly(film_path, allowed_hosts=[name])


LOCAL = "Host: localhost:8501"
JSON, TEXT, FORM = (
    f"Content-Type: {kind}"
    for kind in ("application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded")
)
FOREIGN = {
    "another site": [f"Origin: {EVIL}"],
    "a file, or a frame without rights": ["Origin: null"],
    "another port": ["Origin: http://localhost:3000"],
    "a name that begins as ours": ["Origin: http://localhost:8501.evil.example"],
    "a browser says so": [f"Origin: {EVIL}", "Sec-Fetch-Site: cross-site"],
    "a browser says so, without Origin": ["Sec-Fetch-Site: cross-site"],
    "a neighbour": ["Origin: http://localhost:8501", "Sec-Fetch-Site: same-site"],
}
OWN = {
    "no browser": [],
    "our page": ["Origin: http://localhost:8501"],
    "our page, encrypted by a proxy": ["Origin: https://LOCALHOST:8501"],
    "our page, behind a proxy that asks by another name": ["Origin: https://me.example", "Sec-Fetch-Site: same-origin"],
    "the user": ["Sec-Fetch-Site: none"],
}


@pytest.mark.parametrize("kind", [JSON, TEXT, FORM], ids=["json", "text", "form"])
@pytest.mark.parametrize("who", FOREIGN)
def test_pages_from_elsewhere_are_not_answered(film, who, kind):
    status, message = status_of(film, LOCAL, kind, *FOREIGN[who])
    assert status == 403 and "rest_api_enable_cors_support" in message


@pytest.fixture(scope="module")
def open_to_pages(film_path):
    with serve_quickly(film_path, rest_api_enable_cors_support=True) as server:
        yield server


@pytest.mark.parametrize("who", FOREIGN)
def test_where_they_may_ask_they_must_have_been_permitted(open_to_pages, who):
    assert status_of(open_to_pages, LOCAL, JSON, *FOREIGN[who]) == (200, [GOOD])
    for kind in ([TEXT], [FORM], []):
        status, message = status_of(open_to_pages, LOCAL, *kind, *FOREIGN[who])
        assert status == 415 and "Pages of other origins must send requests with Content-Type" in message


@pytest.mark.parametrize("kind", [[JSON], [TEXT], [FORM], []], ids=["json", "text", "form", "nothing"])
@pytest.mark.parametrize("who", OWN)
def test_programs_and_our_page_send_what_they_like(film, open_to_pages, who, kind):
    for server in (film, open_to_pages):
        assert status_of(server, LOCAL, *kind, *OWN[who]) == (200, [GOOD])


def test_a_browser_that_asks_first_is_told_no_unless_it_may(film, open_to_pages):
    question = request(LOCAL, f"Origin: {EVIL}", "Access-Control-Request-Method: POST", method="OPTIONS", body=b"")
    status, headers, _ = send(film, question)
    assert status == 403 and not any(name.startswith("access-control") for name in headers)
    status, headers, _ = send(open_to_pages, question)
    assert (status, headers["access-control-allow-origin"]) == (200, "*")


def test_pages_from_elsewhere_may_look_at_nothing_without_permission(film):
    """A browser sends such requests, and shows the page no answer that does not permit it."""
    status, headers, _ = send(film, request(LOCAL, f"Origin: {EVIL}", method="GET", path=MODEL, body=b""))
    assert status == 200 and "access-control-allow-origin" not in headers
