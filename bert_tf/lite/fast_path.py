"""The .tflite file next to a SavedModel, which answers few texts in a fraction of the SavedModel's time.

An export for CPUs has, in the folder `assets.extra/litert` of a version, the same model as model.tflite, and
speed.json, which contains the number of texts up to which it was faster when it was exported. In float32 and bfloat16,
a model whose graphs have fixed lengths has those for short texts only. TensorFlow Serving passes over the folder.
"""

import json
import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from absl import logging

from bert_tf.lite.litert_file import MODEL_FILE
from bert_tf.lite.reading import TooLongError
from bert_tf.lite.runner_pool import RunnerPool
from bert_tf.lite.text_model import LitertTextModel, decode_texts
from bert_tf.utils.files import brief
from bert_tf.utils.token_counts import TokenCounts

FOLDER = os.path.join("assets.extra", "litert")
SPEED = "speed.json"
MOST_TEXTS = "most_texts"  # in speed.json: {tokens of a text: number of texts up to which LiteRT is faster}
INTERPRETERS = "interpreters"  # in speed.json: their largest number, since each takes memory
ONLY_SHORT = "only_short_texts"  # in speed.json: whether the file cannot answer all texts of the SavedModel
_BYTES_PER_TOKEN = 4  # of English, with its spaces


class FastPath:
    """Answers the text signature of a version with LiteRT; any number of threads may ask.

    Args:
        path: the directory of a version that has `FOLDER`.
        cores: number of cores that requests may use together.
        threads: the most that compute one request; None for all cores.
        engine: "auto": it takes what LiteRT computed faster when the version was exported; "litert": everything.

    Attributes:
        size: number of requests that are computed at the same time.
        lengths: tokens of texts, those of speed.json for which it is asked, in ascending order.

    Raises:
        ValueError: a file is damaged, or of another program.
        OSError: a file cannot be read.
    """

    def __init__(self, path: str, cores: int, threads: int | None = None, engine: str = "auto"):
        folder = os.path.join(path, FOLDER)
        speed = read_speed(os.path.join(folder, SPEED))
        self._most_texts = speed.most_texts if engine == "auto" else None
        self._measured = sorted(speed.most_texts)
        self._model = LitertTextModel(os.path.join(folder, MODEL_FILE))
        self._pool = RunnerPool(self._model.make_runner, cores, threads or cores, speed.interpreters)
        self.size = self._pool.size
        self.lengths = [each for each in self._measured if self._most_texts is None or self._most_texts[each]]

    def takes(self, texts: Mapping[str, np.ndarray]) -> bool:
        """Returns whether LiteRT answers these texts, {input: bytes [n] or [n, k]}, which need not be valid."""
        axes = {name: 1 + (name == self._model.list_input) for name in self._model.inputs}
        if {name: array.ndim for name, array in texts.items()} != axes or not all(each.size for each in texts.values()):
            return False
        if self._most_texts is None:
            return True
        tokens, parts = self._estimate(texts), 1
        longest = self._measured[-1]
        if tokens > longest:
            if longest < self._model.task["max_seq_length"]:
                return False
            parts = -(-tokens // longest)  # windows, if the model reads a long text in several
        length = next((each for each in self._measured if each >= tokens), longest)
        return parts * max(array.size for array in texts.values()) <= self._most_texts.get(length, 0)

    def answer(self, texts: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], TokenCounts] | None:
        """Returns the outputs of the text signature, {name: array [n, ...]}, and what was not read of the texts.

        None if all interpreters are in use, a text is too long or, with "auto", LiteRT fails; the SavedModel must
        answer. Bytes that are not UTF-8 are dropped, as in the SavedModel.
        """
        columns = {name: decode_texts(array.tolist()) for name, array in texts.items()}
        with self._pool.idle() as runner:
            try:
                return None if runner is None else self._model.answer(runner, columns)
            except TooLongError:
                return None
            except RuntimeError as error:
                if self._most_texts is None:
                    raise
                logging.log_first_n(logging.WARNING, "LiteRT failed, so the SavedModel answers: %s", 1, error)
                return None

    def prepare(self):
        """Computes a text with each graph and interpreter, before texts are answered; the longest, if there is one."""
        self._pool.prepare(self.lengths[-1:] if self._model.takes_any_length else self.lengths)

    def _estimate(self, texts):
        """Returns the number of tokens of the longest sequence of a request."""
        return sum(max(map(len, array.ravel().tolist())) // _BYTES_PER_TOKEN for array in texts.values()) + 3


def open_fast_path(
    path: str, cores: int, threads: int | None = None, engine: str = "auto", is_warmed: bool = False
) -> FastPath | None:
    """Returns the `FastPath` of a version; None if it has none, if it would answer nothing, or if the SavedModel must.

    With "auto", a damaged file is warned of, and the SavedModel answers everything.

    Args:
        path, cores, threads: as in `FastPath`.
        engine: one of `names.ENGINES`.
        is_warmed: whether it is prepared.

    Raises:
        ValueError, RuntimeError, OSError: `engine` is "litert", and there is no such model or it cannot be used.
    """
    if engine == "saved_model":
        return None
    if not os.path.isfile(os.path.join(path, FOLDER, MODEL_FILE)):
        if engine == "litert":
            raise ValueError(
                f"`engine=litert` requires a version with {os.path.join(FOLDER, MODEL_FILE)}, which {path} lacks. "
                "Export the model with `export_for=cpu` and `export_dtype=int8`, or use `engine=auto`."
            )
        return None
    try:
        found = FastPath(path, cores, threads, engine)
        if is_warmed:
            found.prepare()
    except (ValueError, RuntimeError, OSError) as error:
        if engine == "litert":
            raise
        logging.warning("LiteRT's model in %s is not used, and the SavedModel answers all requests: %s", path, error)
        return None
    return found if found.lengths else None


def find_file(path: str) -> str:
    """Returns the .tflite file at a path: the file itself, or that of a version, or of the newest of several versions.

    Raises:
        ValueError: there is none, or only one for short texts.
    """
    if os.path.isfile(path):
        return path
    versions = [each for each in os.listdir(path) if each.isdecimal()] if os.path.isdir(path) else []
    newest = os.path.join(path, max(versions, key=int, default=""))
    for folder in (path, newest):
        if os.path.isfile(file := os.path.join(folder, MODEL_FILE)):
            return file
        if os.path.isfile(file := os.path.join(folder, FOLDER, MODEL_FILE)):
            _check_lengths(os.path.join(folder, FOLDER))
            return file
    raise ValueError(
        f"`path` must be a {MODEL_FILE}, or an export that has one; got {path}. Export a trained model with "
        "`export_for=litert`, or with `export_for=cpu` and `export_dtype=int8`."
    )


def _check_lengths(folder):
    """Raises ValueError if the model next to a SavedModel is one for short texts."""
    speed = os.path.join(folder, SPEED)
    if os.path.isfile(speed) and read_speed(speed).only_short_texts:
        raise ValueError(
            f"LiteRT's model in {folder} answers only short texts, as in float32 or bfloat16 exports of models with "
            "relative positions or local attention. Use it together with the SavedModel (`engine=auto`), or export "
            "with `export_for=litert` or in int8."
        )


class Speed(NamedTuple):
    """The contents of speed.json.

    Attributes:
        most_texts: {tokens of a text: number of texts up to which LiteRT is faster}.
        interpreters: the largest number of interpreters.
        only_short_texts: whether the file cannot answer all texts of the SavedModel.
    """

    most_texts: dict[int, int]
    interpreters: int
    only_short_texts: bool


def read_speed(path: str) -> Speed:
    """Returns the contents of a speed.json.

    Raises:
        ValueError: it is damaged.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        speed = json.loads(text)
        most = {int(length): int(number) for length, number in speed[MOST_TEXTS].items()}
        if not most:
            raise ValueError("no length")
        return Speed(most, int(speed[INTERPRETERS]), bool(speed[ONLY_SHORT]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} must contain {MOST_TEXTS!r} by length, {INTERPRETERS!r} and {ONLY_SHORT!r}; got {brief(text)}. "
            "Export the model again."
        ) from error

