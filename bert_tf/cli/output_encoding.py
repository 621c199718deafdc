"""Writes characters that standard output cannot encode, in a Latin-1 locale or an ASCII pipe, as JSON does."""

import codecs
import io
import json
import sys

from bert_tf.cli.commands import PROGRAMS as PROGRAMS

_ESCAPING = "bert_tf.escape"  # name of the error handler


def escape_unencodable_output():
    """Has characters that standard output cannot encode written as JSON does, such as \\u4e2d, with one warning."""
    stream, is_known = sys.stdout, False
    if not isinstance(stream, io.TextIOWrapper) or stream.errors != "strict":
        return  # in memory, or the user has said what to do: PYTHONIOENCODING=latin-1:replace

    def escape(error):
        nonlocal is_known
        if not isinstance(error, UnicodeEncodeError):
            raise error
        if not is_known:
            is_known = True
            _warn_of_escapes(stream.encoding)
        return json.dumps(error.object[error.start : error.end])[1:-1], error.end

    codecs.register_error(_ESCAPING, escape)
    stream.reconfigure(errors=_ESCAPING)


def _warn_of_escapes(encoding):
    from absl import logging  # here, because the list of commands does not need it

    if codecs.lookup(encoding).name == "utf-8":  # of a path, for example
        logging.warning("The output has bytes that are not valid UTF-8; they are written as \\uXXXX.")
        return
    logging.warning(
        "The encoding of standard output, %s, lacks some characters; they are written as \\uXXXX. Set "
        "PYTHONIOENCODING=utf-8 to write them unchanged.", encoding,
    )  # fmt: skip
