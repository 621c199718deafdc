"""A Chromium that shows nothing, driven by its own protocol: keys pressed, requests seen, colours chosen."""

import asyncio
import pathlib
import shutil
import subprocess
import tempfile
import time

import aiohttp

from tests.serving.server_process import wait_for

PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
_PATIENCE_S = 60


class Browser:
    """A page of its own; an asynchronous context manager.

    Attributes:
        requested: addresses that the page has asked for, in order.
        errors: all that the page has written into the console, and what it raised.
    """

    def __init__(self):
        self.requested, self.errors = [], []
        self._number = 0

    async def __aenter__(self):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command = [PATH, *FLAGS, "--remote-debugging-port=0", f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        file = pathlib.Path(self._folder.name, "DevToolsActivePort")
        port = wait_for(lambda: file.exists() and file.read_text().partition("\n")[0], _PATIENCE_S)
        self._session = aiohttp.ClientSession()
        async with self._session.get(f"http://127.0.0.1:{port}/json/list") as response:
            pages = [each for each in await response.json() if each["type"] == "page"]
        self._socket = await self._session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)
        for domain in ("Network", "Log", "Runtime"):
            await self.command(f"{domain}.enable")
        return self

    async def __aexit__(self, *error):
        await self._socket.close()
        await self._session.close()
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    async def command(self, name: str, **parameters) -> dict:
        """Sends a command of the DevTools protocol and returns its result."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": name, "params": parameters})
        while True:
            said = await self._socket.receive_json(timeout=_PATIENCE_S)
            if said.get("method") == "Network.requestWillBeSent":
                self.requested.append(said["params"]["request"]["url"])
            if said.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                self.errors.append(said["params"])
            if said.get("id") == self._number:
                return said["result"]

    async def evaluate(self, script: str):
        """Returns the value of an expression in the page."""
        return (await self.command("Runtime.evaluate", expression=script, returnByValue=True))["result"].get("value")

    async def until(self, script: str):
        """Returns the value of an expression in the page as soon as it is true.

        Raises:
            TimeoutError: it has not become true in a minute.
        """
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            if value := await self.evaluate(script):
                return value
            await asyncio.sleep(0.05)
        raise TimeoutError(script)

    async def type(self, text: str):
        """Types into what has the focus."""
        await self.command("Input.insertText", text=text)

    async def press(self, key: str, code: int, modifiers: int = 0):
        """Presses and releases a key; `code` is Windows's, modifiers are 1 Alt, 2 Ctrl, 4 Meta and 8 Shift."""
        for kind in ("keyDown", "keyUp"):
            await self.command("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                               modifiers=modifiers)  # fmt: skip
