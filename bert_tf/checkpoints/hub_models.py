"""Models of the Hugging Face Hub by name: downloads the files that bert_tf reads, with huggingface_hub.

    resolve_model("intfloat/e5-small-v2")           # directory in the cache of huggingface_hub
    resolve_model("intfloat/e5-small-v2@refs/pr/1")   # of a branch, a tag or a commit
    resolve_model("models/reviews")                 # unchanged if the directory models exists

Cache, tokens, offline mode and the server's address are huggingface_hub's: HF_HOME, HF_TOKEN, HF_HUB_OFFLINE,
HF_ENDPOINT. Neither this module nor huggingface_hub imports TensorFlow.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from absl import logging

from bert_tf.checkpoints import keras_hub
from bert_tf.checkpoints.description_files import LABELS_FILE
from bert_tf.checkpoints.locate import WEIGHT_FILES, list_files
from bert_tf.checkpoints.releases import MODEL_FILES
from bert_tf.checkpoints.weight_files import read_weight_map
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import ADAPTER_FILES, CONFIG_FILES, GLINER_FILE, TASK_FILE, check_not_adapters
from bert_tf.models.sentence_transformers_files import MODULES, PROMPTS, TRANSFORMER_FILES
from bert_tf.models.sparse_encoder_files import ROUTER_FILE
from bert_tf.tokenization.added_tokens import ADDED_FILE
from bert_tf.tokenization.byte_bpe_tables import MERGES_FILE
from bert_tf.tokenization.table_registry import TABLES
from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, SPECIAL_FILE
from bert_tf.tokenization.tokenizer_json import WHOLE_FILE
from bert_tf.utils.extras import require_packages
from bert_tf.utils.files import files_below, path_text
from bert_tf.utils.hub_names import hub_name
from bert_tf.utils.json_files import read_list, read_object
from bert_tf.utils.settings import Flag, Settings

# Everything that is read besides weights, in the directory of the model and in those of its modules.
_VOCABULARIES = [name for tables in TABLES.values() for name in tables.FILES]
_DESCRIPTION = (
    *CONFIG_FILES, TASK_FILE, LABELS_FILE, GLINER_FILE, ADAPTER_FILES[0], MODULES, PROMPTS, ROUTER_FILE,
    *TRANSFORMER_FILES, *_VOCABULARIES, MERGES_FILE, WHOLE_FILE, CONFIG_FILE, SPECIAL_FILE, ADDED_FILE,
    *(os.path.join(keras_hub.ASSETS, name) for name in (*keras_hub.VOCABULARIES, MERGES_FILE)),
)  # fmt: skip


def resolve_model(path: Any, parameter: str = "path", weights: bool = True) -> str:
    """Returns the local path of a model: `path` itself, or, for a name on the Hugging Face Hub, the downloaded files.

    A name has the form organization/model or organization/model@revision; local paths take precedence; see `hub_name`.
    Downloaded are the configuration, the tokenizer, the settings of sentence-transformers, and the weights in the first
    format of `locate.WEIGHT_FILES` that the model has.

    Args:
        path: a path, or a name.
        parameter: its name, for messages.
        weights: whether the weights are needed.

    Raises:
        ValueError: it is no path; or there is no such model or revision, access is denied, the model is of an
            unsupported family or has no weights that can be read, it cannot be downloaded, or huggingface_hub is not
            installed.
        OSError: the files cannot be written.
    """
    path = path_text(path, parameter)
    name = hub_name(path)
    return path if name is None else _download(*name, weights)


def with_local_models(flags: Iterable[Flag], settings: Settings) -> Settings:
    """Returns the settings with the local paths of the models that they name; errors are those of `resolve_model`."""
    values = settings.to_dict()
    for flag in flags:
        value = values.get(flag.name)
        if flag.reads_model and value:
            several, weights = not isinstance(value, str), flag.reads_model != "tokenizer"
            paths = [resolve_model(each, weights=weights) for each in (value if several else [value])]
            values[flag.name] = paths if several else paths[0]
    return Settings(values, settings.given)


def _download(repository, revision, weights):
    """Returns the directory of a model in huggingface_hub's cache, with all of its files."""
    require_packages(
        f"There is no local model {repository}. Pass a directory that contains {MODEL_FILES}, or download the model "
        "from the Hugging Face Hub, which",
        "huggingface_hub",
    )
    from huggingface_hub import constants, errors

    shown, server = f"{repository}@{revision}" if revision else repository, constants.ENDPOINT
    if constants.HF_HUB_OFFLINE:
        return _cached(repository, revision, weights, None)
    try:
        return _fetch(repository, revision, weights)
    except errors.GatedRepoError as error:
        raise ValueError(
            f"Access to {repository} on {server} is restricted. Accept its conditions on {server}/{repository}, then "
            "log in with `hf auth login` or set HF_TOKEN."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ValueError(
            f"{repository} on {server} has no branch, tag or commit {revision}. Pass {repository} without @{revision}, "
            "or another revision."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ValueError(
            f"Model not found: {shown} is neither a local path nor the name of a model on {server}. Check its "
            "spelling. If the model is private, log in with `hf auth login` or set HF_TOKEN."
        ) from error
    except (OSError, *errors.HfHubHTTPError.__bases__) as error:  # of the library by which this version asks
        is_of_disk = getattr(error, "errno", None) and not isinstance(error, ConnectionError | TimeoutError)
        if is_of_disk:
            raise
        return _cached(repository, revision, weights, error)


def _fetch(repository, revision, weights):
    """Downloads what is missing of a model, its description first: that of an unsupported one needs no weights."""
    from huggingface_hub import HfApi, hf_hub_download

    files = {each.rfilename for each in HfApi().model_info(repository, revision=revision).siblings}
    first = next((name for name in _DESCRIPTION if name in files), None)
    if first is None:
        raise _no_model(repository, files)
    path = hf_hub_download(repository, first, revision=revision)  # which keeps what commit the revision is
    target = path.removesuffix(os.path.join(os.sep, *first.split("/")))
    commit = os.path.basename(target)  # of which files in the cache are not asked for again
    folders = _module_folders(
        lambda name: hf_hub_download(repository, name, revision=commit) if name in files else None
    )
    for name in (name for folder in folders for name in _inside(folder, _DESCRIPTION) if name in files):
        hf_hub_download(repository, name, revision=commit)
    if not weights:
        return target
    _check_model(repository, target, folders, files)
    for name in _weights(files, folders):
        path = hf_hub_download(repository, name, revision=commit)
        for shard in _shards(path, name):
            if shard in files:  # what is missing is said by the reader of the weights
                hf_hub_download(repository, shard, revision=commit)
    return target


def _cached(repository, revision, weights, error):
    """Returns the directory of a model that was downloaded before; raises ValueError if it was not, or in part.

    `error` is why it was not downloaded now; None if HF_HUB_OFFLINE is set.
    """
    from huggingface_hub import constants, errors, snapshot_download

    try:
        folder = snapshot_download(
            repository, revision=revision, local_files_only=True, allow_patterns=list(CONFIG_FILES)
        )
        is_complete = not weights or _has_weights(folder)
    except errors.LocalEntryNotFoundError:
        is_complete = False
    shown = f"{repository}@{revision}" if revision else repository
    if not is_complete:
        why = f"{constants.ENDPOINT} did not provide it ({str(error):.300})" if error else "HF_HUB_OFFLINE is set"
        remedy = "Run the same command again to continue the download" if error else "Unset HF_HUB_OFFLINE"
        raise ValueError(
            f"Model not found: {shown} is not a local path, its files are not all in the cache "
            f"{constants.HF_HUB_CACHE}, and {why}. {remedy}, or pass a directory that contains {MODEL_FILES}."
        ) from error
    if error:
        logging.warning(
            "Using the cached files of %s, because %s cannot be reached: %.300s", shown, constants.ENDPOINT, error
        )
    return folder


def _module_folders(local: Callable[[str], str | None]) -> list[str]:
    """Returns the directories of a model's modules, "" being that of the model; only "" if there is no modules.json.

    Args:
        local: name of a file -> its local path, or None if the model does not have it.
    """
    path = local(MODULES)
    modules = read_list(path, "a list of modules in JSON", "download the model again") if path else []
    named = [module.get("path") for module in modules if isinstance(module, dict)]
    folders = ["", *(name.strip("/") for name in named if isinstance(name, str))]
    for folder in list(dict.fromkeys(folders)):
        if path := local(*_inside(folder, [ROUTER_FILE])):
            types = read_object(path, "the modules of a router in JSON", "download the model again").get("types")
            kinds = {name: str(kind) for name, kind in types.items()} if isinstance(types, dict) else {}
            # The encoder first: it is checked before weights are downloaded.
            folders += _inside(folder, sorted(kinds, key=lambda name: "Transformer" not in kinds[name]))
    return list(dict.fromkeys(folders))


def _inside(folder: str, names: Iterable[str]) -> list[str]:
    return [f"{folder}/{name}" if folder else name for name in names]


def _weights(files: Collection[str], folders: Iterable[str]) -> Iterator[str]:
    """Yields, of a model's files, those with weights: in each directory the first of the formats that are read."""
    for folder in folders:
        found = next((name for name in _inside(folder, WEIGHT_FILES) if name in files), None)
        if found is None:
            continue
        yield found
        more = (keras_hub.TASK_WEIGHTS,) if found.endswith(keras_hub.MODEL_WEIGHTS) else ADAPTER_FILES[1:]
        yield from [name for name in _inside(folder, more) if name in files][:1]


def _shards(path, name):
    """Returns the files that an index names, as files of the repository; () for any other file."""
    if not name.endswith(".index.json"):
        return ()
    return [os.path.join(os.path.dirname(name), shard) for shard in sorted(set(read_weight_map(path).values()))]


def _check_model(repository, target, folders, files):
    """Raises ValueError before weights are downloaded that could not be read."""
    home = next(_weights(files, folders), None)
    if home is None:
        check_not_adapters(target)
        raise _no_model(repository, files)
    EncoderConfig.load(os.path.join(target, os.path.dirname(home)))


def _no_model(repository, files):
    return ValueError(
        f"{repository} has no configuration and weights that can be read: expected config.json and one of "
        f"{[*WEIGHT_FILES]}. It contains {list_files(files)}; use another model, or convert its weights."
    )


def _has_weights(folder):
    files = {os.path.relpath(path, folder) for path in files_below(folder)}
    folders = _module_folders(lambda name: os.path.join(folder, name) if name in files else None)
    weights = [*_weights(files, folders)]
    needed = [shard for name in weights for shard in _shards(os.path.join(folder, name), name)]
    return bool(weights) and files.issuperset(needed)
