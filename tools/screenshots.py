"""Makes docs/images/report.png, see.png and try_it.png from a real run; needs Chromium, Pillow and aiohttp.

    .venv/bin/python -m tools.screenshots --weights=demo/weights/minilm --data_dir=demo/data

The defaults are what `make demo` leaves. The run is a classifier of film reviews in --work_dir. Training takes some
minutes; if a finished run is there, only its pages are made again.
"""

import argparse
import asyncio
import base64
import contextlib
import io
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.parse

from PIL import Image

from bert_tf.utils.proxies import open_local
from tests.serving.browser import PATH, Browser

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT, SCALE = 1200, 800, 1  # of the window, and its pixels per CSS pixel
MOST = 250_000  # bytes of an image
TEXT = "A warm, funny and beautifully acted film that I would gladly see again."
SEEN = "The plot makes no sense, but the film is warm, funny and beautifully acted."
EVALUATION = {"max_seq_length": 64, "fit_abstention": 0.95}
TRAINING = {
    "num_train_epochs": 2, "learning_rate": 1e-4, "save_checkpoints_steps": 84, "metric_for_best_model": "accuracy",
    "export_explanations": "attention,attributions",
}  # fmt: skip
REST_PORT = 8501  # TensorFlow Serving's: it is in the picture


def main():
    """Makes the three images."""
    arguments = parse_arguments()
    if not PATH:
        sys.exit("Chromium was not found. Install it (apt-get install chromium), then run this again.")
    work = arguments.work_dir.resolve()
    run, exports, page = work / "reviews", work / "models" / "reviews", work / "see.html"
    work.mkdir(parents=True, exist_ok=True)
    train(run, exports, arguments)
    call("visualize", f"--model={run}", f"--output_file={page}", SEEN)
    IMAGES.mkdir(parents=True, exist_ok=True)
    asyncio.run(photograph((run / "report.html").as_uri(), "report"))
    asyncio.run(photograph(f"{page.as_uri()}#heads", "see", prepare_heads))
    with serving(exports, work / "server.log") as address:
        query = urllib.parse.urlencode({"model": "reviews", "text": TEXT})
        asyncio.run(photograph(f"{address}/#{query}&send&explain", "try_it", until="document.querySelector('.word')"))


def parse_arguments():
    """Returns the flags of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", default="demo/weights/minilm", help="Directory of the pretrained MiniLM.")
    parser.add_argument("--data_dir", default="demo/data", help="Directory with train.tsv and test.tsv.")
    parser.add_argument("--work_dir", default="build/screenshots", type=pathlib.Path, help="Directory of the run.")
    return parser.parse_args()


def train(run: pathlib.Path, exports: pathlib.Path, arguments):
    """Fine-tunes, evaluates and exports; a finished run is only evaluated again, by the code as it is now."""
    data = pathlib.Path(arguments.data_dir)
    flags, on = {**EVALUATION, "eval_file": data / "test.tsv", "output_dir": run}, ["do_eval", "fit_temperature"]
    if not exports.exists():
        flags |= {**TRAINING, "train_file": data / "train.tsv", "init_checkpoint": arguments.weights}
        flags |= {"export_dir": exports}
        on += ["do_train", "do_export", "bucket_by_length"]
    call("run_classifier", *(f"--{name}={value}" for name, value in flags.items()), *(f"--{name}" for name in on))


def call(command: str, *words: str):
    """Runs a command of bert-tf in a process of its own. Raises CalledProcessError if it fails."""
    subprocess.run([sys.executable, "-m", "bert_tf", command, *words], check=True, cwd=ROOT)


@contextlib.contextmanager
def serving(exports: pathlib.Path, log: pathlib.Path):
    """Serves the exported model with its page; gives the page's address."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    flags = [f"--model_base_path={exports}", "--model_name=reviews", f"--port={port}", f"--rest_api_port={REST_PORT}"]
    address = f"http://localhost:{REST_PORT}"
    with open(log, "w", encoding="utf-8") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "bert_tf", "serve", *flags, "--ui"], cwd=ROOT, stdout=file, stderr=file
        )
    try:
        wait_for(f"{address}/v1/models/reviews/metadata", server, log)
        yield address
    finally:
        server.terminate()
        server.wait()


def wait_for(url: str, server: subprocess.Popen, log: pathlib.Path):
    """Waits until the server responds. Raises RuntimeError if it has ended, or takes too long."""
    for _ in range(600):
        with contextlib.suppress(OSError), open_local(url, timeout=60):
            return
        if server.poll() is not None:
            break
        time.sleep(0.5)
    raise RuntimeError(f"The server did not start; see {log}.")


async def prepare_heads(browser: Browser):
    """Opens some heads of layer 1, and shows the attention of one token."""
    await browser.evaluate("""(() => {
      const layer = document.querySelector('.controls select');
      layer.value = 1;
      layer.dispatchEvent(new Event('change'));
    })()""")
    await browser.until("document.querySelector('.readout').textContent.startsWith('Layer 1')")
    heads = "[...document.querySelectorAll('button.head')]"
    await browser.evaluate(f"[0, 4, 8, 9].forEach((head) => {heads}[head].click())")


async def photograph(url: str, name: str, prepare=None, until: str = "document.readyState === 'complete'"):
    """Writes IMAGES/name.png: the first screen of a page.

    Args:
        url: of the page.
        name: of the image.
        prepare: called with the browser, once the page is there.
        until: an expression that is true once it is.
    """
    async with Browser(f"--window-size={WIDTH},{HEIGHT}", "--hide-scrollbars") as browser:
        await browser.command("Page.enable")
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": SCALE, "mobile": False}
        await browser.command("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "light"}]
        await browser.command("Emulation.setEmulatedMedia", features=scheme)
        await browser.command("Page.navigate", url=url)
        await browser.until(f"!!({until})")
        await asyncio.sleep(1)
        if prepare:
            await prepare(browser)
            await asyncio.sleep(0.5)
        await browser.evaluate("scrollTo(0, 0)")
        shot = await browser.command("Page.captureScreenshot")
    path = IMAGES / f"{name}.png"
    write_image(path, base64.b64decode(shot["data"]))
    print(f"{os.path.relpath(path, ROOT)}: {path.stat().st_size:,} bytes", flush=True)


def write_image(path: pathlib.Path, png: bytes):
    """Writes the image with the largest palette that keeps it below MOST bytes."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    for colors in (256, 128, 64, 32):
        image.quantize(colors, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size <= MOST:
            return
    raise ValueError(f"{path} must be at most {MOST:,} bytes; got {path.stat().st_size:,} with 32 colors.")


if __name__ == "__main__":
    main()
