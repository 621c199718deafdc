"""Inputs of quick pretraining, checked before it starts rather than after minutes."""

import os
import pathlib
from collections.abc import Mapping

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.quick.recipe import SizeRecipe
from bert_tf.pretraining.settings import QuickOptions
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary, vocabulary_in
from bert_tf.utils import text_files
from bert_tf.utils.counts import number_of
from bert_tf.utils.files import content_of
from bert_tf.utils.names import MASK

_PATHS = ("input_file", "eval_file", "teacher", "vocab_file")


def check_inputs(options: QuickOptions, recipe: SizeRecipe):
    """Raises ValueError if texts, vocabulary or teacher are missing or not valid."""
    _check_texts(options)
    if options.vocab_file:
        _check_vocabulary(options.vocab_file)
    if options.teacher:
        _check_teacher(options.teacher, recipe)


def check_vocabulary_size(size: int, path: str | os.PathLike, width: int):
    """Raises ValueError if the encoder is wider than the vocabulary: embeddings are initialized from co-occurrences.

    Args:
        size: number of tokens in the vocabulary.
        path: path of the vocabulary.
        width: hidden size of the encoder.
    """
    if size < width:
        raise ValueError(
            f"The vocabulary must have at least as many tokens as the width of the encoder, {width}. It has {size} in "
            f"{os.fspath(path)}; start in another `output_dir` with more text of more distinct words, or with another "
            "`vocab_file`."
        )


def check_rows(rows: Mapping[int, int], recipe: SizeRecipe):
    """Raises ValueError if the text is too short for one step of a phase; `rows` counts the rows of each length."""
    for phase in recipe.phases:
        if (there := rows[phase.row_length]) < phase.batch_size:
            words = 3 * phase.batch_size * phase.row_length // 4  # for English; fewer for other languages
            raise ValueError(
                f"`input_file` must have enough text for one step, {phase.batch_size} sequences of {phase.row_length} "
                f"tokens, about {words:,} words. It has text for {there}; start in another `output_dir` with more: a "
                "useful encoder takes megabytes."
            )


def identity(options: QuickOptions, recipe: SizeRecipe) -> dict:
    """Returns the options, file contents and recipe that determine the result, as JSON values."""
    values = options.deciding_values()
    for name in _PATHS:
        path = values[name]
        values[name] = [*map(os.path.abspath, path)] if isinstance(path, list) else path and os.path.abspath(path)
    paths = [path for texts in _texts(options) for path in texts]
    paths += [options.vocab_file] if options.vocab_file else []
    contents = {os.path.abspath(path): content_of(path) for path in paths}
    return {**values, "contents": contents, "recipe": recipe.to_dict()}


def _texts(options):
    """Returns the files of training text and of held-out text, if any."""
    return [text_files.find_text_files(texts) for texts in (options.input_file, options.eval_file) if texts]


def _check_texts(options):
    found = _texts(options)
    for paths in found:
        if not any(map(os.path.getsize, paths)):
            raise ValueError(
                f"No text found in {number_of(len(paths), 'file')}, such as {paths[0]}. Use other files."
            )
    train, held_out = ({*map(os.path.realpath, paths)} for paths in (*found, [])[:2])
    if both := train & held_out:
        raise ValueError(
            f"`eval_file` must not contain training text, but {min(both)} is also in `input_file`. Move it out of "
            "there."
        )


def _check_teacher(teacher, recipe):
    path = pathlib.Path(vocabulary_in(teacher))
    if not path.is_file():
        raise ValueError(
            f"`teacher` must be a model directory with {VOCAB_FILE} or tokenizer.json, which the records are made "
            f"with. {teacher} has none; use another teacher, or train without one."
        )
    _check_vocabulary(path)
    depth = EncoderConfig.load(teacher).num_hidden_layers
    if depth <= recipe.layers:
        raise ValueError(
            f"`teacher` must have more than the {recipe.layers} layers of its student. {teacher} has {depth}; use a "
            "larger one, or fine-tune this one directly."
        )


def _check_vocabulary(path):
    if Vocabulary.read(path).id_of(MASK) is None:
        raise ValueError(
            f"The vocabulary must contain {MASK}, but {os.fspath(path)} lacks it. Append it on its own line, or omit "
            "`vocab_file` to learn a vocabulary."
        )
