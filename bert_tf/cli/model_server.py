"""What `serve` makes of the flags that it shares with tensorflow_model_server."""

import dataclasses

from absl import logging

import bert_tf
from bert_tf.cli.flags.model_server import IN_PLATFORM_CONFIG, WITHOUT_EFFECT

_THREADS = ("intra", "inter")
_ONE_KIND = tuple(f"tensorflow_{kind}_op_parallelism" for kind in _THREADS)


def version_lines() -> str:
    """Returns what --version prints, in tensorflow_model_server's form."""
    import tensorflow as tf

    return f"TensorFlow ModelServer: bert_tf {bert_tf.__version__}\nTensorFlow Library: {tf.version.VERSION}"


def check(settings):
    """Says which flags ask for something that has no effect here.

    Raises:
        ValueError: one asks for something without which the server would be another than is wanted.
    """
    if settings.use_alts_credentials:
        raise ValueError(
            "`use_alts_credentials` must be false, since Google's ALTS is not offered here. Received true; "
            "`ssl_config_file` encrypts connections."
        )
    if settings.thread_pool_factory_config_file:
        raise ValueError(
            "`thread_pool_factory_config_file` must be empty, since there are no factories of threads here. Received: "
            f"{settings.thread_pool_factory_config_file}; `tensorflow_session_parallelism` sets the number of threads."
        )
    for flag in WITHOUT_EFFECT:
        if getattr(settings, flag.name) != flag.default:
            reason = flag.help.removeprefix("No effect here: ")
            logging.warning("--%s has no effect here: %s", flag.name, reason)
    if settings.enable_per_model_batching_parameters and not settings.enable_batching:
        logging.warning("--enable_per_model_batching_parameters has no effect here without --enable_batching.")
    offered = settings.where_given("enable_model_config_reload")
    if settings.model_config_reload_base_paths and not (settings.model_config_file if offered is None else offered):
        logging.warning("--model_config_reload_base_paths has no effect here: the config cannot be reloaded.")
    if settings.model_config_file and (given := _given(settings, ("model_base_path", "model_name"))):
        logging.warning("%s has no effect here: --model_config_file lists the models.", given)
    if settings.platform_config_file and (given := _given(settings, IN_PLATFORM_CONFIG)):
        logging.warning("%s has no effect here: --platform_config_file takes its place.", given)
    elif settings.tensorflow_session_parallelism and (given := _given(settings, _ONE_KIND)):
        logging.warning("--tensorflow_session_parallelism has no effect here: %s takes its place.", given)


def threads(settings) -> dict[str, int]:
    """Returns {"intra": n, "inter": n}: threads that compute an operation, and operations; 0: not set.

    Raises:
        ValueError: they are set twice.
    """
    if settings.platform_config_file:
        return dict.fromkeys(_THREADS, 0)
    both = settings.tensorflow_session_parallelism
    each = {kind: getattr(settings, name) for kind, name in zip(_THREADS, _ONE_KIND, strict=True)}
    if both and all(each.values()):
        raise ValueError(
            "`tensorflow_session_parallelism` must come without `tensorflow_intra_op_parallelism` and "
            f"`tensorflow_inter_op_parallelism`. Received {both}, {each['intra']} and {each['inter']}; leave it out."
        )
    return each if any(each.values()) else dict.fromkeys(_THREADS, both)


def bundle_and_batching(settings) -> dict:
    """Returns {"bundle": how versions are loaded and run, "batching": in which batches, or None}.

    Raises:
        ValueError: a file cannot be read or used, or one of parameters is given for batches that nobody asked for.
    """
    from bert_tf.serving.server.bundle import read_platform

    if settings.platform_config_file:
        tokens = settings.max_batch_tokens
        bundle, batching = read_platform(settings.platform_config_file, max_batch_tokens=tokens)
    else:
        bundle, batching = _bundle(settings), _batching(settings)
    checks = settings.enable_signature_method_name_check
    return {"bundle": dataclasses.replace(bundle, check_method_names=checks), "batching": batching}


def _bundle(settings):
    from bert_tf.serving.server.bundle import Bundle, read_tags, session_config

    return Bundle(
        read_tags(settings.saved_model_tags),
        session_config(
            settings.tensorflow_session_config_file,
            threads(settings),
            settings.per_process_gpu_memory_fraction,
            settings.mixed_precision or "",
        ),
        settings.enable_model_warmup,
        max(1, settings.num_request_iterations_for_warmup),
        settings.enable_per_model_batching_parameters,
        settings.prefer_tflite_model,
    )


def _batching(settings):
    from bert_tf.serving.server.batching_parameters import Batching, read_parameters

    file, tokens = settings.batching_parameters_file, settings.max_batch_tokens
    if not settings.enable_batching:
        if file:
            raise ValueError(
                "`batching_parameters_file` must come with `enable_batching`. Received: "
                f"{file} without it; give both or neither."
            )
        return None
    return read_parameters(file, max_batch_tokens=tokens) if file else Batching(max_batch_tokens=tokens)


def _given(settings, names):
    """Returns those of the flags that the user gave, "" for none; one that is empty asks for nothing."""
    return ", ".join(f"--{name}" for name in names if settings.where_given(name))
