"""What a run is given, looked at before it begins: what is wrong with it is said now, and not after minutes."""

import os
import pathlib
from collections.abc import Mapping

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.quick.recipe import Recipe
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary, vocabulary_in
from bert_tf.utils.counts import number_of
from bert_tf.utils.files import content_of
from bert_tf.utils.names import MASK
from bert_tf.utils.settings import Settings
from bert_tf.utils.text import files

_PATHS = ("input_file", "eval_file", "teacher", "vocab_file")
# Whatever changes the result, but for the minutes: with more of them, a run that had too few goes on.
_DECISIVE = (
    *_PATHS, "vocab_size", "do_lower_case", "input_format", "text_column", "document_start", "language", "precision",
    "seed",
)  # fmt: skip


def check(settings: Settings, recipe: Recipe):
    """Raises ValueError where texts, vocabulary or teacher are not there, or not what they must be."""
    _check_alternatives(settings)
    _check_texts(settings)
    if settings.vocab_file:
        _check_vocabulary(settings.vocab_file)
    if settings.teacher:
        _check_teacher(settings.teacher, recipe)


def check_vocabulary_size(size: int, path: str | os.PathLike, width: int):
    """Raises ValueError where an encoder of this width cannot begin: its embeddings are made of how pieces neighbour.

    Args:
        size: pieces of the vocabulary.
        path: where it lies.
        width: of the encoder.
    """
    if size < width:
        raise ValueError(
            f"The vocabulary must have as many pieces as the encoder is wide, {width}. Received {size} in "
            f"{os.fspath(path)}; begin in another `output_dir` with more text, of more different words, or with "
            "another `vocab_file`."
        )


def check_rows(rows: Mapping[int, int], recipe: Recipe):
    """Raises ValueError where the text is not enough for one step of a phase; `rows` are those of each length."""
    for phase in recipe.phases:
        if (there := rows[phase.row_length]) < phase.batch_size:
            words = 3 * phase.batch_size * phase.row_length // 4  # of English; other languages have fewer
            raise ValueError(
                f"`input_file` must be text for one step at least, {phase.batch_size} rows of {phase.row_length} "
                f"pieces, some {words:,} words. Received text for {there}; begin in another `output_dir` with more: a "
                "useful encoder takes megabytes."
            )


def depth_of(teacher: str) -> int:
    """Returns how many layers a teacher has.

    Raises:
        ValueError: its configuration is missing or wrong.
    """
    return EncoderConfig.load(teacher).num_hidden_layers


def identity(settings: Settings, recipe: Recipe) -> dict:
    """Returns what decides the result, as JSON values."""
    values = {name: settings.get(name) for name in _DECISIVE}
    for name in _PATHS:
        path = values[name]
        values[name] = [*map(os.path.abspath, path)] if isinstance(path, list) else path and os.path.abspath(path)
    texts = [path for names in (settings.input_file, settings.eval_file) if names for path in files.find(names)]
    paths = [*texts, *([settings.vocab_file] if settings.vocab_file else [])]
    contents = {os.path.abspath(path): content_of(path) for path in paths}
    return {**values, "contents": contents, "recipe": recipe.to_dict()}


def _check_alternatives(settings):
    if settings.teacher and settings.vocab_file:
        raise ValueError(
            "`teacher` must come without `vocab_file`, for the student has the teacher's vocabulary. Received both: "
            f"{settings.teacher} and {settings.vocab_file}; leave one of them out."
        )
    if "vocab_size" in settings.given and (settings.teacher or settings.vocab_file):
        raise ValueError(
            "`vocab_size` must come without `vocab_file` and `teacher`, which have a vocabulary. Received "
            f"{settings.vocab_size} and {settings.vocab_file or settings.teacher}; leave one of them out."
        )


def _check_texts(settings):
    found = [files.find(texts) for texts in (settings.input_file, settings.eval_file) if texts]
    for paths in found:
        if not any(map(os.path.getsize, paths)):
            raise ValueError(
                f"Text must be there. Received {number_of(len(paths), 'file')} without any, such as {paths[0]}; name "
                "others."
            )
    train, held_out = ({*map(os.path.realpath, paths)} for paths in (*found, [])[:2])
    if both := train & held_out:
        raise ValueError(
            f"`eval_file` must be text that is not trained on. Received {min(both)}, which `input_file` names too; "
            "move it out of there."
        )


def _check_teacher(teacher, recipe):
    path = pathlib.Path(vocabulary_in(teacher))
    if not path.is_file():
        raise ValueError(
            f"`teacher` must be a model's folder with {VOCAB_FILE} or tokenizer.json, by which the records are made. "
            f"Received {teacher}, where there is none; name another teacher, or train without one."
        )
    _check_vocabulary(path)
    depth = depth_of(teacher)
    if depth <= recipe.layers:
        raise ValueError(
            f"`teacher` must have more than the {recipe.layers} layers of its student. Received {teacher} with "
            f"{depth}; name a larger one, or fine-tune this one itself."
        )


def _check_vocabulary(path):
    if Vocabulary.read(path).id_of(MASK) is None:
        raise ValueError(
            f"The vocabulary must hold {MASK}. Received {os.fspath(path)} without it; append it as a line of its own, "
            "or leave `vocab_file` out, and one is learned."
        )
