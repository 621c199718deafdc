"""A server on this machine that answers as the Hugging Face Hub does, with the calls that huggingface_hub needs.

    GET  /api/models/ORG/NAME[/revision/REVISION]     the commit, and the names of its files
    GET  /api/models/ORG/NAME/tree/COMMIT             the same with sizes
    HEAD, GET  /ORG/NAME/resolve/REVISION/FILE        a file, or a range of its bytes
"""

import hashlib
import http.server
import json
import re
import threading
import urllib.parse
from collections.abc import Mapping

_INFO = re.compile(r"/api/models/(?P<name>[^/]+/[^/]+)(?:/revision/(?P<revision>.+))?")
_TREE = re.compile(r"/api/models/(?P<name>[^/]+/[^/]+)/tree/(?P<revision>[^/]+)/?")
_FILE = re.compile(r"/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")


class HubServer:
    """The server, for a `with` statement.

    Attributes:
        url: its address.
        models: name -> revision -> file -> content; the first revision is main.
        asked: (method, file) of each file that was asked for, in order.
        restricted: names of models whose files may not be read.
        broken: files that end after half of their bytes, each so often.
        down: whether it answers every request with an error.
    """

    def __init__(self):
        self.reset()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def reset(self):
        """Forgets all models, and what was asked for."""
        self.models: dict[str, dict[str, Mapping[str, bytes]]] = {}
        self.asked, self.restricted, self.broken, self.down = [], set(), {}, False

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def commit_of(self, name: str, revision: str | None) -> str | None:
        """Returns the commit of a branch or a commit; None if there is none."""
        commits = {branch: hashlib.sha1(f"{name} {branch}".encode()).hexdigest() for branch in self.models[name]}
        return commits.get(revision or next(iter(commits)), revision if revision in commits.values() else None)

    def files_of(self, name: str, commit: str) -> Mapping[str, bytes]:
        """Returns {file: content} of a commit."""
        return next(files for branch, files in self.models[name].items() if self.commit_of(name, branch) == commit)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each content waits until its headers are acknowledged
    hub: HubServer

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        match = _TREE.fullmatch(path) or _FILE.fullmatch(path) or _INFO.fullmatch(path)
        given = match.groupdict() if match else {}
        values = {key: value and urllib.parse.unquote(value) for key, value in given.items()}
        name = values.get("name")
        if self.hub.down:
            return self._answer(503)
        if name not in self.hub.models:
            return self._answer(401, {"X-Error-Code": "RepoNotFound"})
        commit = self.hub.commit_of(name, values["revision"])
        if commit is None:
            return self._answer(404, {"X-Error-Code": "RevisionNotFound"})
        files = self.hub.files_of(name, commit)
        if "file" in values:
            return self._file(name, commit, values["file"], files)
        entries = [{"type": "file", "path": file, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                   for file, content in files.items()]  # fmt: skip
        info = {"id": name, "sha": commit, "siblings": [{"rfilename": file} for file in files]}
        return self._answer(200, {}, json.dumps(entries if _TREE.fullmatch(path) else info).encode())

    def _file(self, name, commit, file, files):
        self.hub.asked.append((self.command, file))
        if name in self.hub.restricted:
            return self._answer(403, {"X-Error-Code": "GatedRepo"})
        if file not in files:
            return self._answer(404, {"X-Error-Code": "EntryNotFound"})
        content = files[file]
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": commit}
        start = int((re.match(r"bytes=(\d+)-", self.headers.get("Range", "")) or [0, 0])[1])
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self._answer(206 if start else 200, headers, content[start:], file)

    def _answer(self, status, headers=None, content=b"", file=None):
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.hub.broken.get(file):
            self.hub.broken[file] -= 1
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content)

    def log_message(self, *_):
        """Says nothing: `asked` has what was asked for."""
