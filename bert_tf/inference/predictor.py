"""Predictions for texts in Python, with an exported or a trained model."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from bert_tf.data.dialect import Dialect
from bert_tf.inference.batch_prediction.exported_model import find_model, match_columns
from bert_tf.inference.batch_prediction.input_table import InputTable
from bert_tf.inference.text_model import TextModel, Texts
from bert_tf.serving.client.items import chunks, to_inputs
from bert_tf.serving.client.requests import DEFAULT, PAIR, is_order_known
from bert_tf.serving.server.version_folders import SAVED_MODEL, find_versions
from bert_tf.utils.answers import split_answer
from bert_tf.utils.files import path_text
from bert_tf.utils.hub_names import hub_name
from bert_tf.utils.loaded_by_path import LoadedByPath
from bert_tf.utils.model_outputs import check_finite_outputs
from bert_tf.utils.names import ENGINES
from bert_tf.utils.text_inputs import present_list, text_list

if TYPE_CHECKING:
    from bert_tf.checkpoints.loading import Bert

_REMEDY = "Use an export with another `export_dtype`, such as float32, or another model."
_BATCHES = 32  # of a file, which are read and sorted by length together


class Predictor(LoadedByPath):
    """Predicts with a trained or exported model of any task: labels, entities, answers, choices, embeddings, tokens.

        predictor = bert_tf.Predictor("models/reviews")
        predictor("A warm, funny film.")        # {"label": "positive", "probabilities": {"negative": 0.02, ...}}
        predictor(["A joy.", "Dull."])          # a list of two

    Safe to call from several threads. A pickle or a copy loads the model again, from its path.

    Args:
        path: an exported SavedModel: its directory, or that of its numbered versions, of which the newest is used. Or
            a trained model: the `output_dir` of a fine-tuning command, a Hugging Face or sentence-transformers
            directory, or a name on the Hugging Face Hub; it predicts the same as its export in float32. A model with
            only a masked-LM head predicts the first masked token of a text. Or a model from `bert_tf.load`, whose
            current weights are used.
        pairs: read text pairs; only for a Hugging Face text classifier, whose files do not say whether it does.
        signature: signature of an export, one that takes texts.
        engine: engine for texts if an export has both a SavedModel and a LiteRT model (`export_for=cpu`): "auto"
            (LiteRT for few texts in `__call__`), "litert" or "saved_model". The rows of files are always predicted by
            the SavedModel.

    Attributes:
        inputs: names of an example's texts, such as ("text",) or ("question", "context").
        list_inputs: the inputs that take a list of texts, such as ("choices",).
        token_counts: truncated texts and unknown tokens so far, a `TokenCountLog`, which warns if they are many.

    Raises:
        ValueError: there is no model in the directory, its files are not complete, or it is a plain encoder.
    """

    def __init__(
        self, path: "str | os.PathLike | Bert", pairs: bool = False, signature: str = DEFAULT, engine: str = "auto"
    ) -> None:
        bert = _loaded_model(path)
        path = _local_path(bert.path or "a model in memory" if bert else path)
        exported = bert is None and is_export(path)
        if engine not in ENGINES:
            raise ValueError(f"`engine` must be one of {', '.join(ENGINES)}; got {engine!r}.")
        for name, value, usual in (("signature", signature, DEFAULT), ("engine", engine, ENGINES[0])):
            if not exported and value != usual:
                raise ValueError(f"`{name}` requires an export, and {path} is not one. Remove it.")
        self._take(find_model(path, signature).load(engine) if exported else _load_trained(path, bert, pairs))
        if pairs and self.inputs != PAIR:
            raise ValueError(
                f"`pairs` is only for Hugging Face text classifiers. {path} takes {', '.join(self.inputs)}; remove it."
            )

    def _take(self, model: TextModel):
        """Predicts with this model from now on."""
        self._model = model
        self.inputs = tuple(each.name for each in model.inputs)
        self.list_inputs = tuple(each.name for each in model.inputs if each.several)
        self.token_counts = model.token_counts

    @overload
    def __call__(self, texts: str | Mapping[str, Any], batch_size: int = ...) -> dict[str, Any]: ...
    @overload
    def __call__(self, texts: list[Any], batch_size: int = ...) -> list[dict[str, Any]]: ...
    @overload
    def __call__(self, texts: Any, batch_size: int = ...) -> Any: ...
    def __call__(self, texts: Any, batch_size: int = 64) -> dict[str, Any] | list[dict[str, Any]]:
        """Predicts for one example, or for several.

        Args:
            texts: one example, or a list, Series, array or other iterable of them. An example is a text; for a model
                with several inputs, a tuple of texts in the order of `inputs`, or a dictionary {input: text}. The
                choices of a multiple-choice model are a list of texts.
            batch_size: examples per batch. Batches are of similar lengths; their composition can affect the last
                digit of a float.

        Returns:
            The prediction for one example, or a list of them in order: dictionaries {output: value} as from
            `Client.ask`, such as {"label": str, "probabilities": {label: float}} for a classifier.

        Raises:
            ValueError: an example does not match the model's inputs, or a text is missing; or the model's outputs are
                NaN or infinite.
        """
        _check_batch_size(batch_size)
        if not isinstance(texts, Iterable):
            raise ValueError(f"`texts` must be a string, or a list or other iterable of texts; got {texts!r:.60}.")
        is_one = self._is_example(texts)
        columns = self._columns([texts] if is_one else present_list(texts))
        answers = self._predict(columns, range(len(columns[0])), batch_size, self._model.are_few(columns))
        return answers[0] if is_one else answers

    def predict_file(
        self,
        path: str | os.PathLike,
        text_column: str | int | Sequence[str | int] | None = None,
        header: bool = True,
        batch_size: int = 64,
        separator: str | None = None,
        encoding: str | None = None,
    ) -> Iterator[dict[str, Any] | None]:
        """Yields the prediction for each row of a file of any size, in order; None for a row without a text.

        Args:
            path: a .tsv, .csv, .jsonl or .parquet file, or any other name for one text per line; may be gzipped.
            text_column: a column, or one for each of `inputs`, by name or index. A column named like an input feeds
                that input; "INPUT=COLUMN" assigns it. If None, the columns named like the inputs.
            header: whether line 1 of a .tsv or .csv file names the columns.
            batch_size: as in `__call__`.
            separator: the character between the columns of a .tsv or .csv file. If None, a tab or a comma.
            encoding: encoding of a text file, such as "cp1252". If None, UTF-8.

        Raises:
            ValueError: the columns do not match the inputs, or, when it is reached, a row is malformed.
        """
        _check_batch_size(batch_size)
        given = (text_column,) if isinstance(text_column, str | int) else text_column
        columns = match_columns(self.inputs, self.inputs if given is None else list(map(str, given)))
        lists = tuple(columns[each.name] for each in self._model.inputs if each.several)
        path, dialect = os.fspath(path), Dialect(separator, encoding)
        dialect.check(path)
        table = InputTable(path, tuple(columns.values()), lists, header=header, dialect=dialect)
        return self._predict_rows(table.examples(), batch_size)

    def _is_example(self, texts):
        if len(self.inputs) > 1 and isinstance(texts, tuple):  # in a list, several examples; in a tuple, one
            return bool(texts) and isinstance(texts[0], str | bytes)
        return isinstance(texts, str | bytes | Mapping)

    def _columns(self, items) -> list[Texts]:
        """Returns the texts of each input, one per example."""
        if not is_order_known(self.inputs) and not all(isinstance(item, Mapping) for item in items):
            raise ValueError(
                f"`texts` must be dictionaries with the texts {', '.join(self.inputs)}, because the order of these "
                "inputs is unknown; got texts without names."
            )
        table = to_inputs(items, self.inputs)
        return [_checked(table[each.name], each) for each in self._model.inputs]

    def _predict(self, columns, ids, batch_size, are_few=False):
        self.check_process()
        answers = [None] * len(ids)
        with self.token_counts.together():
            for chosen in self._model.batches(columns, batch_size):
                outputs = self._model.run(columns, chosen, ids, are_few)
                check_finite_outputs(outputs.values(), _REMEDY, [ids[row] for row in chosen])
                found = split_answer(outputs, len(chosen))
                for row, answer in zip(chosen, found, strict=True):
                    answers[row] = answer
        return answers

    def _predict_rows(self, examples: Iterable[tuple], batch_size: int):
        for rows in chunks(enumerate(examples), batch_size * _BATCHES):
            whole = [(number, texts) for number, texts in rows if None not in texts]
            columns = [[texts[i] for _, texts in whole] for i in range(len(self.inputs))]
            ids = [number for number, _ in whole]
            answers = dict(zip(ids, self._predict(columns, ids, batch_size), strict=True))
            yield from (answers.get(number) for number, _ in rows)


def load_predictor(
    path: str | os.PathLike,
    inputs: tuple[str, ...],
    parameter: str,
    kind: str,
    advise: Callable[[str], str] = lambda path: "",
) -> Predictor:
    """Returns the predictor of a model that must take certain inputs.

    Args:
        path: as in `Predictor`.
        inputs: what the model must take.
        parameter, kind: for the error message: who asks, and for what, such as "a reranker".
        advise: returns the end of that message for the directory of a trained model with other inputs.

    Raises:
        ValueError: there is no such model, or it has other inputs.
    """
    path = _local_path(path, parameter)
    predictor = Predictor(path)
    if predictor.inputs != inputs:
        raise ValueError(
            f"`{parameter}` must be {kind}, with the inputs {', '.join(inputs)}. {path} has "
            f"{', '.join(predictor.inputs)}.{'' if is_export(path) else advise(path)}"
        )
    return predictor


def _check_batch_size(batch_size):
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        raise ValueError(f"`batch_size` must be a positive integer; got {batch_size!r}.")


def _checked(texts, given):
    """Returns the texts of an input as str; raises ValueError with the input's name for anything else."""
    if not given.several:
        return text_list(texts, given.name)
    lists = [text_list(each, given.name) for each in texts]
    if [] in lists:
        raise ValueError(f"`{given.name}` must not be empty; got an empty list at position {lists.index([])}.")
    return lists


def is_export(path: str) -> bool:
    """Returns whether a directory is one of a SavedModel, or of its numbered versions."""
    folders = [path, *find_versions(path).values()] if os.path.isdir(path) else []
    return any(os.path.isfile(os.path.join(folder, SAVED_MODEL)) for folder in folders)


def _loaded_model(path):
    """Returns a model from `bert_tf.load` as it is, and None for anything else."""
    if isinstance(path, str | bytes | os.PathLike):
        return None
    from bert_tf.checkpoints.loading import Bert

    return path if isinstance(path, Bert) else None


def _load_trained(path, bert, pairs):
    from bert_tf.inference import trained_text_model  # an export needs none of its modules

    if bert is None:
        return trained_text_model.load_trained_text_model(path, pairs)
    return trained_text_model.load_text_model_of(bert, pairs)


def _local_path(path, parameter="path"):
    """Returns the path of a model that may be named as on the Hub; a local export needs nothing that reads models."""
    path = path_text(path, parameter)
    if hub_name(path):
        from bert_tf.checkpoints.hub_models import resolve_model

        return resolve_model(path, parameter)
    return path
