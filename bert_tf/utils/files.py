"""Whole files and directories: text read forgivingly where Google's code does, written so that none is seen half."""

import codecs
import contextlib
import errno
import fcntl
import gzip
import hashlib
import os
import re
import reprlib
import secrets
import shutil
import stat
import zlib
from collections.abc import Iterator

from absl import logging

from bert_tf.utils.names import number_of, word_for

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


def read_text(path: str | os.PathLike) -> str:
    """Returns the text of the UTF-8 file `path`, unpacked first where the name ends in ".gz".

    A byte-order mark is dropped. So are bytes that are not UTF-8, as google-research/bert's `convert_to_unicode` does;
    one line in the log counts them. Everything else stays as it is: NUL, carriage returns, exotic line breaks.

    Raises:
        ValueError: the path is no readable file, is packed although its name does not say so or the other way round,
            or is UTF-16.
    """
    text, lost = read_with_losses(path)
    if lost:
        _log_dropped(os.fspath(path), sum(lost.values()), len(lost))
    return text


def read_with_losses(path: str | os.PathLike) -> tuple[str, dict[int, int]]:
    """Returns what `read_text` does, and {1-based line: how many bytes were dropped there}, with nothing in the log."""
    path = os.fspath(path)
    with _opened(path) as file:
        data = _without_mark(path, file.read())
    try:
        return data.decode("utf-8"), {}
    except UnicodeDecodeError:
        text = data.decode("utf-8", "ignore")
        pairs = zip(data.split(b"\n"), text.split("\n"), strict=True)  # a line feed is never part of a broken character
        lost = {number: _lost(*pair) for number, pair in enumerate(pairs, 1)}
        return text, {number: count for number, count in lost.items() if count}


def read_lines(path: str | os.PathLike) -> Iterator[str]:
    """Yields the lines of what `read_text` returns, each with its line feed, in memory that the file's size is not in.

    The log counts dropped bytes when the last line has been taken.

    Raises:
        ValueError: as `read_text`; where a packed file is damaged, after the lines before.
    """
    path, lost, lines = os.fspath(path), 0, 0
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
    """Yields the lines of a file as they are, unpacked first where the name ends in ".gz".

    Raises:
        ValueError: as `read_text`, but for UTF-16, which is not looked for.
    """
    with _opened(os.fspath(path)) as file:
        yield from file


def brief(value) -> str:
    """Returns `repr` of what a file held, short enough for a message."""
    return f"{_BRIEF.repr(value):.600}"


def with_suffix(path: str | os.PathLike, suffix: str) -> str:
    """Returns a path with something behind the name: eval_results.txt with "_test" is eval_results_test.txt."""
    stem, extension = os.path.splitext(path)
    return f"{stem}{suffix}{extension}"


def write_text(path: str | os.PathLike, text: str):
    """Writes `text` to `path` as UTF-8: all of it, or nothing and OSError."""
    with atomic_open(path) as file:
        file.write(text)


@contextlib.contextmanager
def atomic_open(path: str | os.PathLike, mode: str = "w", durable: bool = True):
    """Opens a file next to `path` that takes its place when the block ends well, and vanishes when it does not.

    On any error, a full disk included, the file that was at `path` before is unchanged and nothing half-made remains.
    Each writer has a temporary file of its own: of several the last to end wins, whole. A file that was there keeps its
    permissions, a new one has those of the umask. A symbolic link at `path` stays one. Where not `durable`, the end
    does not wait for the disk: for files that are read and removed in a while.

    Args:
        path: of the file.
        mode: "w" (UTF-8, line ends as written) or "wb".
        durable: see there.

    Raises:
        OSError: the file cannot be written, or at `path` is something else, such as a device.
    """
    assert mode in ("w", "wb"), mode
    path = os.path.realpath(path)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
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
    """Yields a free path in the folder of `path` that no other writer has, to be filled and renamed to `path`.

    At the end of the block what is still at the temporary path is removed; where the process is killed, the next writer
    of `path` does that.

    Raises:
        OSError: nothing can be made there.
    """
    with _reserved(os.path.realpath(path)) as (_, reserved):
        yield f"{reserved}{_CONTENT}"


@contextlib.contextmanager
def whole_directory(path: str | os.PathLike, replace: bool = False):
    """Makes a directory next to `path`, to be filled, that takes its place when the block ends well; else it vanishes.

    Args:
        path: nothing may be there, or an empty directory; or, to `replace` it, a directory with anything in it, which
            stays as it was until the new one is whole.
        replace: see there.

    Yields:
        the path of the directory to fill.

    Raises:
        ValueError: something is at `path`.
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
    """Says whether a file's name is that of a temporary one: unfinished, or left behind by a writer that was killed.

    Args:
        name: without its folder.
        of: the name of the file that it was to become; None: of any.
    """
    return bool(_TEMPORARY.fullmatch(name)) and (of is None or name.startswith(_start(of)))


def check_free(path: str | os.PathLike, replace: bool = False, parameter: str = "output_dir"):
    """Raises ValueError where a file is at `path`, or a directory that is not empty and not to `replace`.

    Args:
        path, replace: as in `whole_directory`.
        parameter: what the caller calls the path.
    """
    path = os.fspath(path)
    if os.path.lexists(path) and not (os.path.isdir(path) and (replace or not os.listdir(path))):
        raise ValueError(
            f"`{parameter}` must not exist yet, or be an empty directory. {path} is in use; choose another one."
        )


def files_below(folder: str) -> Iterator[str]:
    """Yields the paths of all files below a folder but hidden ones, and of links that lead nowhere."""
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
    """Returns what tells a file's content from another's, for a message: its bytes, and the start of their SHA-256.

    Of a file of more than 256 MiB only the first and the last MiB are read. What is no file, such as a pipe, cannot be
    read twice: of that it says so.
    """
    if not os.path.isfile(path):
        return "no file"
    size = os.path.getsize(path)
    only_ends = size > _MOST_READ
    return f"{size} bytes, SHA-256{' of its ends' if only_ends else ''} {sha256(path, only_ends)[:16]}"


def sha256(path: str | os.PathLike, only_ends: bool = False) -> str:
    """Returns the SHA-256 of a file's bytes in hexadecimal digits, or `only_ends` that of its first and last MiB."""
    with open(path, "rb") as file:
        if not only_ends:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256(file.read(_END))
        file.seek(max(file.tell(), os.path.getsize(path) - _END))
        digest.update(file.read(_END))
    return digest.hexdigest()


def check_exists(path: str, parameter: str | None = None):
    """Raises ValueError if a file does not exist; the message includes the `parameter` that named it."""
    if not os.path.exists(path):
        raise ValueError(f"File not found: {path}{f' (`{parameter}`)' if parameter else ''}. Check its spelling.")


@contextlib.contextmanager
def _reserved(path, permissions=None):
    """Yields an empty file next to `path` with a name of its own, as (descriptor, path), and removes it at the end.

    The descriptor holds a lock on it, which the system frees however the process ends: by that the next writer of
    `path` knows what nobody works on any more. What belongs to a reserved name goes with it.
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
    """Removes what killed writers of `path` left behind; what cannot be locked or removed stays."""
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
    """Returns those of the file at a path, which its replacement keeps; None where nothing is there.

    Raises:
        OSError: it is neither a file nor a directory: a device or a pipe must not be replaced by a file.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:  # whoever opens it says why
        return None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "Neither a file nor free for one", path)
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) else None


@contextlib.contextmanager
def _opened(path):
    """Opens a file to be read as bytes, unpacked; every failure, also in the block, is the user's ValueError."""
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
            "Convert it with: iconv -f UTF-16 -t UTF-8."
        )
    for first, name in enumerate(("UTF-16BE", "UTF-16LE")):
        if len(data) >= _TELLING and not any(data[first:_TELLING:2]):
            raise ValueError(
                f"{path} must be UTF-8 text, but every second byte is NUL, as in UTF-16. Convert it with: "
                f"iconv -f {name} -t UTF-8."
            )
    return data


def _lost(data, text):
    """Returns how many bytes were dropped: those that remain are exactly those of `text`."""
    return len(data) - len(text.encode("utf-8"))


def _log_dropped(path, lost, lines):
    counts = number_of(lost, "byte"), word_for(lost, "is", "are"), number_of(lines, "line")
    logging.warning("%s: dropped %s that %s not UTF-8, in %s.", path, *counts)
