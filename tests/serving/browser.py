"""A Chromium that shows nothing, driven by its own protocol: keys pressed, requests seen, colours chosen."""

import asyncio
import json
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
# The least contrast of letters with the page, of everything that says something, as WCAG 2 has it.
CONTRAST = """
(() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((each) => each / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const contrast = (colour) => {
    const [low, high] = [light(colour), paper].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const texts = [...document.querySelectorAll("h1, h2, h3, p, a, td, th, summary")];
  const drawn = [...document.querySelectorAll("svg text")];
  return [...texts.map((each) => getComputedStyle(each).color), ...drawn.map((each) => getComputedStyle(each).fill)]
    .map(contrast).sort((a, b) => a - b)[0];
})()
"""


class Browser:
    """A page of its own; an asynchronous context manager.

    Args:
        flags: of Chromium, besides FLAGS.

    Attributes:
        requested: addresses that the page has asked for, in order.
        errors: all that the page has written into the console, and what it raised.
    """

    def __init__(self, *flags: str):
        self.requested, self.errors = [], []
        self._number, self._flags = 0, flags

    async def __aenter__(self):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        own = ["--remote-debugging-port=0", f"--user-data-dir={self._folder.name}", "about:blank"]
        command = [PATH, *FLAGS, *self._flags, *own]
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

    async def point(self, selector: str, click: bool = False):
        """Moves the mouse onto what a CSS selector finds first, once it is there, and perhaps clicks."""
        await self.until(f"!!document.querySelector({json.dumps(selector)})")
        x, y = await self.evaluate(
            f"""(() => {{
              const found = document.querySelector({json.dumps(selector)});
              found.scrollIntoView({{ block: "center", inline: "center" }});
              const box = found.getBoundingClientRect();
              return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        at = {"x": x, "y": y}
        await self.command("Input.dispatchMouseEvent", type="mouseMoved", **at)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            await self.command("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    async def type(self, text: str):
        """Types into what has the focus."""
        await self.command("Input.insertText", text=text)

    async def press(self, key: str, code: int, modifiers: int = 0):
        """Presses and releases a key; `code` is Windows's, modifiers are 1 Alt, 2 Ctrl, 4 Meta and 8 Shift."""
        text = {"text": "\r"} if key == "Enter" and not modifiers else {}  # without it a button is not pressed
        for kind, more in (("keyDown", text), ("keyUp", {})):
            await self.command("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                               modifiers=modifiers, **more)  # fmt: skip
