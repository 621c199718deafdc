"""The processes that text_speed.py asks, in turns: through pipes, or over REST as one caller or as several."""

import asyncio
import http.client
import json
import os
import pathlib
import subprocess
import time
from typing import NamedTuple

from peers import ROOT, Peer
from text_server import PATH

_LONGEST_START = 300  # seconds until a server answers


class Request(NamedTuple):
    """What an entrant is asked in one turn.

    Attributes:
        case: what is measured.
        file: a JSON list of texts.
        callers: how many ask at the same time, each one text after another.
    """

    case: str
    file: pathlib.Path
    callers: int = 1


class Entrant:
    """A process that answers texts, and what it costs.

    Attributes:
        answers: its probabilities for the first texts that it was asked.
        first: (seconds, CPU seconds) from its start to the answer to them.
        cpu: {case: CPU seconds of an answer, one for each turn}.
    """

    def __init__(self, process, first):
        """Waits for the answers to the texts of the file `first`."""
        self.process = process
        try:
            self.answers = self._first_answers(first)
        except BaseException:  # which includes an interruption; nobody else knows of the process yet
            self.end()
            raise
        self.first = (time.perf_counter() - self._start, cpu_seconds(process.pid))
        self.cpu = {}

    def seconds(self, request):
        """Returns the seconds of each answer; of several callers, those between two answers."""
        before = cpu_seconds(self.process.pid)
        found = self._ask(request)
        self.cpu.setdefault(request.case, []).append((cpu_seconds(self.process.pid) - before) / len(found))
        return found

    def end(self):
        self.process.kill()
        self.process.wait()


class InProcess(Entrant):
    """A process of text_workers.py."""

    def __init__(self, python, arguments, first):
        self._start = time.perf_counter()
        self._peer = Peer(python, "text_workers.py", *map(str, arguments))
        super().__init__(self._peer.process, first)

    def _first_answers(self, first):
        return self._peer.seconds(first)[1]

    def _ask(self, request):
        return self._peer.seconds(request.file)[0]


class OverRest(Entrant):
    """A server of TensorFlow Serving's REST for texts; what it logs goes to the file `log`."""

    def __init__(self, command, port, first, log):
        self._start, self._port, self._log = time.perf_counter(), port, log
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
        with open(log, "w", encoding="utf-8") as file:
            process = subprocess.Popen(list(map(str, command)), stdout=file, stderr=file, env=environment, cwd=ROOT)
        super().__init__(process, first)

    def _first_answers(self, first):
        while self.process.poll() is None and time.perf_counter() < self._start + _LONGEST_START:
            try:
                return [answer for answer, _ in self._ask_alone(first)]
            except (OSError, http.client.HTTPException):  # it does not answer yet
                time.sleep(0.02)
        self.end()  # so that its status is known
        said = pathlib.Path(self._log).read_text(encoding="utf-8")[-3000:]
        raise RuntimeError(f"{self.process.args} ended with status {self.process.returncode}: {said}")

    def _ask(self, request):
        if request.callers > 1:
            return asyncio.run(_ask_together(self._port, _bodies(request.file), request.callers))
        return [seconds for _, seconds in self._ask_alone(request.file)]

    def _ask_alone(self, file):
        """Returns (probabilities, seconds) of each text, over one connection that is kept."""
        connection, found = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60), []
        connection.connect()
        for body in _bodies(file):
            start = time.perf_counter()
            connection.request("POST", PATH, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            seconds = time.perf_counter() - start
            if response.status != 200:
                raise http.client.HTTPException(f"{response.status}: {answer[:300]}")
            outputs = json.loads(answer)["outputs"]
            found.append((outputs["probabilities"][0], seconds))
        connection.close()
        return found


async def _ask_together(port, bodies, callers):
    """Returns the seconds that lay between two answers on average, as often as there were answers."""
    import aiohttp

    waiting = iter(bodies)

    async def call(session):
        for body in waiting:  # each takes the next one that nobody has asked
            async with session.post(f"http://127.0.0.1:{port}{PATH}", data=body) as response:
                answer = await response.read()
                if response.status != 200:
                    raise RuntimeError(f"{response.status}: {answer[:300]}")

    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:
        start = time.perf_counter()
        await asyncio.gather(*(call(session) for _ in range(callers)))
        return [(time.perf_counter() - start) / len(bodies)] * len(bodies)


def _bodies(file):
    texts = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    return [json.dumps({"inputs": {"text": [text]}}).encode() for text in texts]


def cpu_seconds(pid):
    """Returns the seconds that all threads of a process have computed (Linux)."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    """Returns the bytes that a process has in memory, and those of them that no other process shares (Linux)."""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]
    kibibytes = {name.rstrip(":"): int(number) for name, number, *_ in map(str.split, lines)}
    return 1024 * kibibytes["Rss"], 1024 * (kibibytes["Private_Clean"] + kibibytes["Private_Dirty"])
