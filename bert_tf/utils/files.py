"""Reads text files leniently, as Google's code does, and writes files and directories atomically."""

import codecs
import contextlib
import errno
import fcntl
import glob
import gzip
import hashlib
import io
import os
import re
import reprlib
import secrets
import shutil
import stat
import zlib
from collections.abc import Iterator
from typing import Any

from absl import logging

from bert_tf.utils.counts import number_of, word_for

_GZIP_MAGIC = b"\x1f\x8b"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TELLING = 8  # bytes; so many that are NUL every second time are UTF-16
_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{16}\.tmp(\.new|\.old)?", re.DOTALL)
_CONTENT, _REPLACED = ".new", ".old"  # behind a reserved name: what is being made, and the directory that it replaces
_LONGEST_START = 200  # bytes of a temporary file's name that are the file's own; a name has 255
_MOST_READ, _END = 2**28, 2**20  # bytes: of a file that is hashed whole, and of either end of a larger one
_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 200
_BRIEF.maxlist = _BRIEF.maxtuple = _BRIEF.maxdict = 20
_BRIEF.maxlevel = 3


def read_text(path: str | os.PathLike, encoding: str | None = None) -> str:
    """Reads a text file, decompressed if the name ends in ".gz".

    A byte-order mark is dropped. Bytes that are not UTF-8 are dropped too, as in google-research/bert's
    `convert_to_unicode`, and counted in the log. Everything else is unchanged: NUL, carriage returns, exotic line
    breaks.

    Args:
        path: the file.
        encoding: encoding of the file, such as "cp1252". If None, UTF-8. In any other encoding, an invalid byte is an
            error.

    Raises:
        ValueError: the path is not a readable file, is compressed although its name does not end in .gz or the other
            way round, is UTF-16 without an `encoding` of UTF-16, or is not in the `encoding`.
    """
    text, lost = read_with_losses(path, encoding)
    if lost:
        _log_dropped(os.fspath(path), sum(lost.values()), len(lost))
    return text


def decode_argument(argument: str) -> str:
    """Returns a word of the command line without bytes that are not UTF-8, as `read_text` reads files."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "ignore")


def read_with_losses(path: str | os.PathLike, encoding: str | None = None) -> tuple[str, dict[int, int]]:
    """Reads text like `read_text`, without logging; also returns {1-based line: number of bytes dropped}."""
    path = os.fspath(path)
    if not is_utf8(encoding):
        return "".join(read_lines(path, encoding)), {}
    with _opened(path) as file:
        data = _without_mark(path, file.read())
    try:
        return data.decode("utf-8"), {}
    except UnicodeDecodeError:
        text = data.decode("utf-8", "ignore")
        pairs = zip(data.split(b"\n"), text.split("\n"), strict=True)  # a line feed is never part of a broken character
        lost = {number: _lost(*pair) for number, pair in enumerate(pairs, 1)}
        return text, {number: count for number, count in lost.items() if count}


def read_lines(path: str | os.PathLike, encoding: str | None = None) -> Iterator[str]:
    """Yields the lines of `read_text`, each with its line feed, in constant memory.

    Dropped bytes are logged after the last line.

    Raises:
        ValueError: as `read_text`; if a compressed file is damaged, after the preceding lines.
    """
    path, lost, lines = os.fspath(path), 0, 0
    if not is_utf8(encoding):
        yield from _lines_in(path, encoding)
        return
    with _opened(path) as file:
        for number, data in enumerate(file):
            data = data if number else _without_mark(path, data)
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError:
                text = data.decode("utf-8", "ignore")
                lost, lines = lost + _lost(data, text), lines + 1
            if data:  # not a byte-order mark alone
                yield text
    if lines:
        _log_dropped(path, lost, lines)


def read_byte_lines(path: str | os.PathLike) -> Iterator[bytes]:
    """Yields the raw lines of a file, decompressed if the name ends in ".gz".

    Raises:
        ValueError: as `read_text`, except for UTF-16, which is not detected.
    """
    with _opened(os.fspath(path)) as file:
        yield from file


def find_files(paths: str) -> list[str]:
    """Returns the files that a text names: a path, or paths and glob patterns separated by commas, each file once.

    They are in the order of the text; those of a pattern are sorted. What matches no file is returned as it is, so that
    reading it raises the error.
    """
    if os.path.lexists(paths):
        return [paths]
    found = {}
    for pattern in filter(None, map(str.strip, paths.split(","))):
        matches = [pattern] if os.path.lexists(pattern) else sorted(glob.glob(pattern, recursive=True)) or [pattern]
        for path in matches:
            found.setdefault(os.path.realpath(path), path)
    return list(found.values()) or [paths]


def file_names(paths: str) -> str:
    """Returns the names of the files that `find_files` takes, without directories, the first three; patterns stay."""
    several = [paths] if os.path.lexists(paths) else filter(None, map(str.strip, paths.split(",")))
    names = [os.path.basename(path) for path in several]
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def is_utf8(encoding: str | None) -> bool:
    """Returns whether an encoding is UTF-8, as None is; raises ValueError for an unknown encoding."""
    try:
        "a".encode(encoding or "utf-8")
    except (LookupError, ValueError) as error:
        raise ValueError(
            "`encoding` must be an encoding that Python knows, such as utf-8, latin-1, cp1252, utf-16 or shift_jis; "
            f"got {encoding!r}."
        ) from error
    return codecs.lookup(encoding or "utf-8").name in ("utf-8", "utf-8-sig")


def path_text(path: Any, parameter: str = "path") -> str:
    """Returns a path as a str; raises ValueError for an object that is none, such as a loaded model."""
    if isinstance(path, str | bytes | os.PathLike):
        return os.fsdecode(path)
    own = getattr(path, "path", None)  # of a model from `bert_tf.load`; Keras layers have one that is none
    remedy = f"Pass {own!r}" if isinstance(own, str) and os.path.exists(own) else "Pass a directory or a file"
    raise ValueError(f"`{parameter}` must be a path; got an object of class {type(path).__name__}. {remedy}.")


def brief(value) -> str:
    """Returns the `repr` of a value, shortened for messages."""
    return f"{_BRIEF.repr(value):.600}"


def with_suffix(path: str | os.PathLike, suffix: str) -> str:
    """Adds a suffix to a file name: eval_results.txt with "_test" is eval_results_test.txt."""
    stem, extension = os.path.splitext(path)
    return f"{stem}{suffix}{extension}"


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes `text` to `path` as UTF-8, atomically; raises OSError on failure."""
    with atomic_open(path) as file:
        file.write(text)


@contextlib.contextmanager
def atomic_open(path: str | os.PathLike, mode: str = "w", durable: bool = True):
    """Opens a temporary file that replaces `path` when the block succeeds, and is removed otherwise.

    On any error, including a full disk, an existing file at `path` is unchanged and nothing unfinished remains. Each
    writer has its own temporary file; the last one to finish wins. An existing file keeps its permissions, a new one
    gets those of the umask. A symbolic link at `path` is kept. If not `durable`, it does not wait for the disk; use
    this for short-lived files.

    Args:
        path: path of the file.
        mode: "w" (UTF-8, line ends as written) or "wb".
        durable: see above.

    Raises:
        OSError: the file cannot be written, or `path` is something else, such as a device.
    """
    assert mode in ("w", "wb"), mode
    path = os.path.realpath(path)
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    with _reserved(path, permissions := _permissions(path)) as (lock, temporary):
        try:
            with open(temporary, mode, opener=lambda *_: os.dup(lock), **text) as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(lock)  # some file systems notice a full disk only here: before the old file is gone
            if permissions is not None:
                os.chmod(lock, permissions)
            os.replace(temporary, path)
        except OSError as error:
            if error.filename in (None, temporary):
                error.filename = path  # Python does not name the file when it is a write that fails
            raise


@contextlib.contextmanager
def temporary_path(path: str | os.PathLike) -> Iterator[str]:
    """Yields a unique temporary path next to `path`, to be written and renamed to `path`.

    What remains at the temporary path is removed at the end of the block; if the process is killed, the next writer of
    `path` does so.

    Raises:
        OSError: no file can be created in the directory.
    """
    with _reserved(os.path.realpath(path)) as (_, reserved):
        yield f"{reserved}{_CONTENT}"


@contextlib.contextmanager
def whole_directory(path: str | os.PathLike, replace: bool = False):
    """Creates a temporary directory that replaces `path` when the block succeeds, and is removed otherwise.

    Args:
        path: must not exist or must be empty; with `replace`, a directory with any contents, which is unchanged until
            the new one is complete.
        replace: see above.

    Yields:
        the path of the directory to write to.

    Raises:
        ValueError: `path` is in use.
        OSError: the directory cannot be made.
    """
    path = os.path.realpath(path)
    check_free(path, replace)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with temporary_path(path) as temporary:
        os.mkdir(temporary)
        yield temporary
        if os.path.isdir(path):
            os.rename(path, f"{temporary.removesuffix(_CONTENT)}{_REPLACED}")  # comes back where the next line fails
        os.rename(temporary, path)


def is_temporary(name: str, of: str | None = None) -> bool:
    """Returns whether a file name is that of a temporary file: unfinished, or left over by a killed writer.

    Args:
        name: the name without its directory.
        of: the name of the final file. If None, any.
    """
    return bool(_TEMPORARY.fullmatch(name)) and (of is None or name.startswith(_start(of)))


def check_free(path: str | os.PathLike, replace: bool = False, parameter: str = "output_dir"):
    """Raises ValueError if `path` is a file, or a non-empty directory without `replace`.

    Args:
        path, replace: as in `whole_directory`.
        parameter: the caller's name of the path.
    """
    path = os.fspath(path)
    if os.path.lexists(path) and not (os.path.isdir(path) and (replace or not os.listdir(path))):
        raise ValueError(
            f"`{parameter}` must not exist yet, or be an empty directory. {path} is in use; choose a new directory."
        )


def files_below(folder: str) -> Iterator[str]:
    """Yields the paths of all files below a directory except hidden ones, and of dangling links."""
    seen = set()
    for here, folders, names in os.walk(folder, followlinks=True):
        if os.path.realpath(here) in seen:
            folders.clear()  # a link to a folder above: it has no end
            continue
        seen.add(os.path.realpath(here))
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [os.path.join(here, name) for name in names if not name.startswith(".")]
        yield from (path for path in paths if os.path.isfile(path) or os.path.islink(path))


def content_of(path: str | os.PathLike) -> str:
    """Describes a file's content for a message: its size and the start of its SHA-256.

    For a file of more than 256 MiB, only the first and the last MiB are read. Anything other than a regular file, such
    as a pipe, cannot be read twice and is described as such.
    """
    if not os.path.isfile(path):
        return "no file"
    size = os.path.getsize(path)
    only_ends = size > _MOST_READ
    return f"{size} bytes, SHA-256{' of its ends' if only_ends else ''} {sha256(path, only_ends)[:16]}"


def sha256(path: str | os.PathLike, only_ends: bool = False) -> str:
    """Returns the SHA-256 of a file's bytes in hexadecimal digits; with `only_ends`, that of its first and last MiB."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        if only_ends:
            digest.update(file.read(_END))
            file.seek(max(file.tell(), os.path.getsize(path) - _END))
        while part := file.read(_END):
            digest.update(part)
    return digest.hexdigest()


def check_exists(path: str, parameter: str | None = None):
    """Raises ValueError if a file does not exist; the message includes the `parameter` that named it."""
    if not os.path.exists(path):
        named, is_pattern = f" (`{parameter}`)" if parameter else "", glob.has_magic(path)
        remedy = "No file matches this pattern; check it and the directory." if is_pattern else "Check its spelling."
        raise ValueError(f"File not found: {path}{named}. {remedy}")


@contextlib.contextmanager
def _reserved(path, permissions=None):
    """Yields an empty file with a unique name next to `path`, as (descriptor, path), and removes it at the end.

    The descriptor holds a lock on it, which the system releases however the process ends; from this, the next writer of
    `path` recognizes leftovers. What belongs to a reserved name is removed with it.
    """
    folder, name = os.path.split(path)
    _remove_leftovers(folder, name, path)
    descriptor = None
    while descriptor is None:
        temporary = os.path.join(folder, f"{_start(name)}{secrets.token_hex(8)}.tmp")
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW  # follows no link, opens no file that is there
            descriptor = os.open(temporary, flags, 0o666 if permissions is None else permissions | stat.S_IWUSR)
        except OSError as error:
            error.filename = path
            raise
        if not _lock(descriptor, fcntl.LOCK_EX):
            continue  # a file system without locks, where leftovers stay
        if not os.fstat(descriptor).st_nlink:  # taken for a leftover before it was locked
            os.close(descriptor)
            descriptor = None
    try:
        yield descriptor, temporary
    finally:
        _remove_reserved(temporary, path)
        os.close(descriptor)


def _remove_leftovers(folder, name, path):
    """Removes leftovers of killed writers of `path`, except those that cannot be locked or removed."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for found in names:
        if not (is_temporary(found, name) and found.endswith(".tmp")):
            continue
        leftover = os.path.join(folder, found)
        try:
            descriptor = os.open(leftover, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # it is gone, or another user's
            continue
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                _remove_reserved(leftover, path)
        finally:
            os.close(descriptor)


def _remove_reserved(reserved, path):
    """Removes a reserved file after all that belongs to it; a directory that was about to be replaced comes back."""
    old, content = f"{reserved}{_REPLACED}", f"{reserved}{_CONTENT}"
    with contextlib.suppress(OSError):  # another user's
        if os.path.isdir(old) and not os.path.lexists(path):
            os.rename(old, path)
        shutil.rmtree(old, ignore_errors=True)
        if os.path.isdir(content) and not os.path.islink(content):
            shutil.rmtree(content, ignore_errors=True)
        elif os.path.lexists(content):
            os.remove(content)
        if os.path.lexists(reserved):  # it has not taken its place
            os.remove(reserved)


def _lock(descriptor, how):
    """Locks a file; returns whether it could be."""
    try:
        fcntl.flock(descriptor, how)
    except OSError:  # another holds it, or the file system has no locks
        return False
    return True


def _start(name):
    """Returns the start of the names of all temporary files for a name; hidden, and no longer than a name may be."""
    return f".{os.fsdecode(os.fsencode(name)[:_LONGEST_START])}."


def _permissions(path):
    """Returns the permissions of the file at a path, which its replacement keeps; None if there is no file.

    Raises:
        OSError: it is neither a file nor a directory: a device or a pipe must not be replaced by a file.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:  # opening it reports the reason
        return None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "Neither a file nor free for one", path)
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) else None


@contextlib.contextmanager
def _opened(path):
    """Opens a file for reading bytes, decompressed; failures, also inside the block, become a ValueError."""
    if os.path.isdir(path):
        raise ValueError(f"{path} is a directory, not a file. Name one file inside it.")
    check_exists(path)
    try:
        with gzip.open(path) if _is_packed(path) else open(path, "rb") as file:
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path} is not a complete gzip file: {error}. Compress it again, or remove .gz from its name if it is not "
            "compressed."
        ) from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error


def _lines_in(path, encoding):
    """Yields the lines of a file in an encoding other than UTF-8."""
    number = 0
    with _opened(path) as file, io.TextIOWrapper(file, encoding, newline="\n") as text:
        try:
            for number, line in enumerate(text, 1):
                yield line.removeprefix("\ufeff") if number == 1 else line
        except UnicodeError as error:
            before = error.object[: error.start].decode(encoding, "ignore") if hasattr(error, "object") else ""
            number += 1 + before.count("\n")
            raise ValueError(
                f"{path}:{number}: the file must be {encoding} text; got bytes that are not ({error}); set "
                "`encoding` to that of the file."
            ) from error


def _is_packed(path):
    return path.lower().endswith(".gz")


def _without_mark(path, data):
    """Returns the first bytes of a file without a byte-order mark.

    Raises:
        ValueError: they are not those of UTF-8 text.
    """
    if not _is_packed(path) and data.startswith(_GZIP_MAGIC):
        raise ValueError(f"{path} is a gzip file, not text. Append .gz to its name.")
    data = data.removeprefix(codecs.BOM_UTF8)
    if data.startswith(_UTF16_MARKS):
        raise ValueError(
            f"{path} must be UTF-8 text, but it begins with the byte-order mark of UTF-16. "
            "Convert it with: iconv -f UTF-16 -t UTF-8; a data file can also be read with `encoding=utf-16`."
        )
    for first, name in enumerate(("UTF-16BE", "UTF-16LE")):
        if len(data) >= _TELLING and not any(data[first:_TELLING:2]):
            raise ValueError(
                f"{path} must be UTF-8 text, but every second byte is NUL, as in UTF-16. Convert it with: "
                f"iconv -f {name} -t UTF-8; a data file can also be read with `encoding={name.lower()}`."
            )
    return data


def _lost(data, text):
    """Returns the number of dropped bytes: the remaining ones are exactly those of `text`."""
    return len(data) - len(text.encode("utf-8"))


def _log_dropped(path, lost, lines):
    counts = number_of(lost, "byte"), word_for(lost, "is", "are"), number_of(lines, "line")
    logging.warning("%s: dropped %s that %s not UTF-8, in %s.", path, *counts)
