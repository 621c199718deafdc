"""The flavor: saves, logs and loads an export, and predicts as MLflow's `python_function`."""

import importlib.metadata
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import mlflow
import pandas as pd
from mlflow.models import Model, infer_signature

import bert_tf
from bert_tf.export.sample_texts import sample_texts
from bert_tf.inference.predictor import Predictor
from bert_tf.serving.exports import find_export

FLAVOR_NAME = "bert_tf"
_PINNED = ("tensorflow", "tensorflow-text", "keras", "keras-nlp")


def save_model(
    model: str | os.PathLike, path: str | os.PathLike, mlflow_model: Model | None = None, **options: Any
) -> None:
    """Saves an exported model as a directory of MLflow.

    Args:
        model: an exported SavedModel: its directory, or that of its numbered versions, of which the newest is saved.
        path: directory to create.
        mlflow_model: description of the model to extend. If None, a new one.
        options: further arguments of MLflow's own function in `pyfunc`: `signature` and `input_example` (by default
            those of sample texts), `pip_requirements` (by default `default_requirements()`, to which you can add),
            `code_paths`, `metadata`.

    Raises:
        ValueError: `model` is not an export, or an option is set here.
    """
    version = find_export(os.fspath(model))
    own = {"loader_module", "data_path", "python_model", "artifacts"} & options.keys()
    if own:
        raise ValueError(f"`{min(own)}` is set by `bert_tf.mlflow` and must not be passed; got {options[min(own)]!r}.")
    example = _sample_frame(predictor := Predictor(version))
    description = mlflow_model or Model()
    description.add_flavor(FLAVOR_NAME, bert_tf_version=bert_tf.__version__)
    if all(options.get(name) is None for name in ("conda_env", "pip_requirements", "extra_pip_requirements")):
        options["pip_requirements"] = default_requirements()
    options.setdefault("signature", infer_signature(example, _TextFunction(predictor).predict(example)))
    options.setdefault("input_example", example)
    mlflow.pyfunc.save_model(
        os.fspath(path), loader_module=__name__, data_path=version, mlflow_model=description, **options
    )


def log_model(
    model: str | os.PathLike, name: str, registered_model_name: str | None = None, **options: Any
) -> "mlflow.models.model.ModelInfo":
    """Logs an exported model in the active run of MLflow, or in a new one, and returns MLflow's description of it.

    Args:
        model: as in `save_model`.
        name: name of the logged model.
        registered_model_name: name in the model registry of a new version. If None, it is not registered.
        options: as in `save_model`, and further arguments of MLflow's `Model.log`, such as `run_id` and `tags`.

    Raises:
        ValueError: as `save_model`.
    """
    module = sys.modules[__name__]
    return Model.log(None, module, registered_model_name, name=name, flavor_name=FLAVOR_NAME, model=model, **options)


def load_model(model_uri: str, dst_path: str | None = None) -> Predictor:
    """Loads a model that `log_model` or `save_model` has saved.

    Args:
        model_uri: where MLflow has it, such as "models:/reviews/1", "runs:/RUN_ID/reviews" or a path.
        dst_path: directory to download it to. If None, a temporary one.

    Raises:
        ValueError: it is a model of another flavor.
    """
    path = mlflow.artifacts.download_artifacts(artifact_uri=model_uri, dst_path=dst_path)
    flavors = Model.load(path).flavors
    if FLAVOR_NAME not in flavors:
        raise ValueError(
            f"`model_uri` must be a model that `bert_tf.mlflow` has saved; got {model_uri}, with the flavors "
            f"{', '.join(flavors)}; load it with `mlflow.pyfunc.load_model`."
        )
    return Predictor(os.path.join(path, flavors[mlflow.pyfunc.FLAVOR_NAME][mlflow.pyfunc.DATA]))


def _load_pyfunc(path):
    """Returns what MLflow asks for predictions, of the directory that `data_path` was copied to."""
    return _TextFunction(Predictor(path))


class _TextFunction:
    """A `Predictor` as MLflow's `python_function`."""

    def __init__(self, predictor: Predictor):
        self._predictor = predictor

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Returns one row per example, with a column per output, as `Predictor` names them.

        Args:
            model_input: a DataFrame with a column per input of the model; other columns are ignored. Or a list, array
                or Series of examples as for `Predictor`.
            params: must be empty.

        Raises:
            ValueError: a column is missing, or there are `params`.
        """
        if params:
            raise ValueError(f"`params` must be empty: the model has none; got {', '.join(params)}. Remove them.")
        answers = self._predictor(_examples(model_input, self._predictor.inputs))
        return pd.DataFrame([{name: _plain(value) for name, value in each.items()} for each in answers])


def _examples(given: Any, inputs: tuple[str, ...]) -> list[Any]:
    """Returns the examples of a DataFrame or of an iterable, as `Predictor` takes them."""
    if not isinstance(given, pd.DataFrame):
        return list(given) if isinstance(given, Iterable) and not isinstance(given, str | Mapping) else [given]
    names = [str(name) for name in given.columns]
    missing = [name for name in inputs if name not in names]
    if missing:
        raise ValueError(
            f"`model_input` must have the columns {', '.join(inputs)}; got {', '.join(names)}; rename them."
        )
    columns = [given[name].tolist() for name in inputs]
    return [dict(zip(inputs, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(value):
    """Returns an output without NumPy's types, which MLflow's JSON does not know."""
    return value.tolist() if hasattr(value, "tolist") else value


def _sample_frame(predictor):
    """Returns a DataFrame of sample texts for the model's inputs."""
    return pd.DataFrame(sample_texts(predictor.inputs, predictor.list_inputs, 2))


def default_requirements() -> list[str]:
    """Returns the requirements of a saved model: this version of bert-tf, and those of TensorFlow and Keras."""
    installed = {each.name for each in importlib.metadata.distributions()}
    versions = [f"{name}=={importlib.metadata.version(name)}" for name in _PINNED if name in installed]
    return [f"bert-tf=={bert_tf.__version__}", *versions]
