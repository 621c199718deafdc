"""Inputs of quick pretraining, checked before it starts rather than after minutes."""

import os
from collections.abc import Mapping

from bert_tf.checkpoints import keras_hub
from bert_tf.checkpoints.model_tokenizer import read_model_tokenizer
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import model_type_in
from bert_tf.pretraining.quick.recipe import SizeRecipe
from bert_tf.pretraining.record_metadata import tokenizer_fingerprint, vocabulary_fingerprint
from bert_tf.pretraining.settings import QuickOptions
from bert_tf.tokenization.table_registry import tokenizer_in
from bert_tf.tokenization.tokenizer_json import WHOLE_FILE
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary
from bert_tf.utils import text_files
from bert_tf.utils.counts import number_of
from bert_tf.utils.files import content_of
from bert_tf.utils.names import MASK

_PATHS = ("input_file", "eval_file", "teacher", "vocab_file", "tokenizer")


def check_inputs(options: QuickOptions, recipe: SizeRecipe):
    """Raises ValueError if texts, vocabulary or teacher are missing or not valid."""
    _check_texts(options)
    if options.vocab_file:
        _check_vocabulary(options.vocab_file)
    if options.tokenizer:
        _check_tokenizer(options, "tokenizer")
    if options.teacher:
        _check_teacher(options, recipe)


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
                f"tokens, about {words:,} words. It has text for {there}; add text and start in a new `output_dir`: a "
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
    if options.tokenizer:
        tables = read_model_tokenizer(options.tokenizer, options.do_lower_case)
        digests = vocabulary_fingerprint(tables.vocab), tokenizer_fingerprint(tables)
        contents[os.path.abspath(options.tokenizer)] = " ".join(digests)
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
            f"`eval_file` must not contain training text, but {min(both)} is also in `input_file`. Remove it from "
            "`input_file`."
        )


def _check_tokenizer(options, name):
    """Raises ValueError if the directory in the option `name` has no tokenizer with a mask token."""
    directory = getattr(options, name)
    is_model = os.path.isdir(directory) and model_type_in(directory)
    if not is_model or not (keras_hub.tokenizer_of(directory) or tokenizer_in(directory)):
        raise ValueError(
            f"`{name}` must be a model directory with a configuration and a tokenizer, such as {VOCAB_FILE} or "
            f"{WHOLE_FILE}, to create the records; got {directory}; add the missing files, or train without "
            f"`{name}`."
        )
    tables = read_model_tokenizer(directory, options.do_lower_case)
    if tables.mask_id is None:
        raise ValueError(
            f"The vocabulary must contain {tables.mask}, but that of {directory} lacks it. Use another `{name}`."
        )


def _check_teacher(options, recipe):
    _check_tokenizer(options, "teacher")
    depth = EncoderConfig.load(options.teacher).num_hidden_layers
    if depth <= recipe.layers:
        raise ValueError(
            f"`teacher` must have more than the {recipe.layers} layers of its student. {options.teacher} has {depth}; "
            "use a larger one, or fine-tune this one directly."
        )


def _check_vocabulary(path):
    if Vocabulary.read(path).id_of(MASK) is None:
        raise ValueError(
            f"The vocabulary must contain {MASK}, but {os.fspath(path)} lacks it. Append it on its own line, or omit "
            "`vocab_file` to learn a vocabulary."
        )
