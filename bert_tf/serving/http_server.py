"""HTTP/1.1 around the REST face: connections that stay open, chunked and gzipped bodies, a stop that loses nothing.

The standard library's server does: a thread per connection costs less than the JSON does, and a new dependency would
have to be kept.
"""

import contextlib
import gzip
import http.server
import socketserver
import threading
import zlib
from collections.abc import Callable

from bert_tf.serving import json_responses

_IDLE_SECONDS = 120  # a connection that says nothing for so long is closed


class RestServer(http.server.ThreadingHTTPServer):
    """Hands each request to `answer(method, path, body) -> (status, JSON)`, after `page(method, path)` if there is one.

    Raises:
        ValueError: the address cannot be had.
    """

    daemon_threads = True  # idle connections must not hold up the end; `stop` waits for the busy ones
    request_queue_size = 128

    def __init__(self, host: str, port: int, answer: Callable, page: Callable | None = None):
        self.answer, self.page = answer, page
        self._busy = 0
        self._changed = threading.Condition()
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ValueError(
                f"The REST port must be free and its address this machine's. Received {host}:{port}: {error}; "
                "choose another `rest_api_port`, or 0 for any."
            ) from error

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own would ask the name server who we are
        self.server_name, self.server_port = self.server_address[:2]

    def start(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, name="rest", daemon=True).start()

    def stop(self, grace: float):
        """Takes no more connections, waits up to `grace` seconds for the requests that run, and closes."""
        self.shutdown()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, grace)
        self.server_close()

    @contextlib.contextmanager
    def working(self):
        """Counts a request from its first line to its last byte."""
        with self._changed:
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def handle_error(self, request, client_address):
        """A caller who hangs up is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # so that connections stay open
    server_version, sys_version = "bert_tf", ""
    wbufsize = -1  # headers and body leave in one packet
    disable_nagle_algorithm = True
    timeout = _IDLE_SECONDS

    def do_POST(self):
        with self.server.working():
            try:
                body = self._body()
            except (ValueError, OSError, EOFError, zlib.error) as error:
                self.close_connection = True  # where the next request begins is anybody's guess
                self._send(400, json_responses.error(f"The body cannot be read: {error}"))
                return
            path = self.path.partition("?")[0]
            if self.server.page and (reply := self.server.page(self.command, path)):
                self._send_bytes(*reply)
            else:
                self._send(*self.server.answer(self.command, path, body))

    do_GET = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = do_POST

    def log_message(self, *arguments):
        """No line per request."""

    def _body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            body = b"".join(self._chunks())
        else:
            length = int(self.headers.get("Content-Length", "0"))
            if length < 0:
                raise ValueError(f"Content-Length is {length}")
            body = self.rfile.read(length)
            if len(body) < length:
                raise EOFError(f"it ends after {len(body)} of {length} bytes")
        return gzip.decompress(body) if self.headers.get("Content-Encoding", "").lower() == "gzip" else body

    def _chunks(self):
        """Yields the parts of a chunked body (RFC 9112, section 7.1)."""
        while size := int(self.rfile.readline(1024).partition(b";")[0], 16):
            if size < 0:
                raise ValueError(f"a chunk's size is {size}")
            yield self.rfile.read(size)
            self.rfile.readline(1024)
        while self.rfile.readline(65536) not in (b"\r\n", b"\n", b""):
            pass  # trailers

    def _send(self, status, text):
        self._send_bytes(status, "application/json" if text else "text/plain", text.encode("utf-8", "replace"))

    def _send_bytes(self, status, content_type, data, headers=None):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.wfile.flush()
