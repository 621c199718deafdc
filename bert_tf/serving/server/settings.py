"""Settings of a server, by concern. Imports no TensorFlow, so that `--help` is fast.

Flags that tensorflow_model_server also has share its names.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.utils import names
from bert_tf.utils.settings import NO_EFFECT, option

SERVE = "serve"  # tag of the graph of a SavedModel that is for serving
MOST_TFLITE_POOLS = 64


@dataclasses.dataclass(frozen=True)
class HostSettings:
    """Address of a server, and how it shuts down."""

    GROUP: ClassVar[str] = "Ports and protocols"

    host: str = option(
        "127.0.0.1",
        "Address to listen on. The default accepts connections from this machine only; 0.0.0.0 accepts all (there is "
        "no password).",
        essential=True,
    )
    grace: float = option(
        30.0,
        "Seconds that a stopping server waits for running requests.",
        name="grace_seconds", low=0, essential=True,
    )


@dataclasses.dataclass(frozen=True)
class GrpcSettings:
    """The gRPC port and its services."""

    GROUP: ClassVar[str] = "Ports and protocols"

    port: int = option(
        8500,
        "gRPC port. 0 takes any free port and logs it; together with --grpc_socket_path, 0 opens no port.",
        low=0, high=65535, essential=True,
    )
    grpc_socket_path: str | None = option(None, "Unix socket that also accepts gRPC requests.")
    grpc_max_threads: int = option(
        256,
        "Maximum number of gRPC requests handled concurrently; further requests are rejected.",
        low=1, group="Batching and threads",
    )
    health: bool = option(False, "Offer the service grpc.health.v1 over gRPC.", name="enable_grpc_healthcheck_service")
    reflection: bool = option(
        False,
        "Offer gRPC reflection, which lists the services and their messages.",
        name="enable_grpc_reflection",
    )
    enable_serialization_as_tensor_content: bool = option(
        False,
        "Send the outputs of Predict over gRPC as raw bytes, which are read faster, instead of lists of numbers.",
    )
    enable_profiler: bool = option(
        False,
        "Let callers profile the server over gRPC, as TensorBoard does; profiles are saved only for callers on the "
        "same machine.",
    )


@dataclasses.dataclass(frozen=True)
class RestSettings:
    """The REST port, access to it, and its services."""

    GROUP: ClassVar[str] = "Ports and protocols"

    rest_api_port: int = option(
        8501,
        "REST port. 0 takes any free port and logs it.",
        low=0, high=65535, essential=True,
    )
    allowed_hosts: Sequence[str] = option(
        [],
        "Host names that REST requests may use in addition to localhost, --host and any IP address; * allows all "
        "names. Default: none, but all if --host is 0.0.0.0 or ::.",
        essential=True,
    )
    ui: bool = option(False, "Serve a page for trying the models at / of the REST port.", essential=True)
    rest_api_num_threads: int = option(
        128,
        "Maximum number of REST requests handled concurrently; further requests are rejected.",
        low=1, group="Batching and threads",
    )
    rest_api_timeout_ms: int = option(
        30000,
        "Time limit of a REST request in milliseconds.",
        name="rest_api_timeout_in_ms", low=1, group="Limits", essential=True,
    )
    rest_api_protocols: Sequence[str] = option(
        list(names.PROTOCOLS),
        "Protocols that the REST port follows in addition to TensorFlow Serving's, whose paths they leave as they are; "
        "kserve_v2 also adds its service to the gRPC port. An empty list follows none.",
        choices=names.PROTOCOLS,
    )
    rest_api_enable_cors_support: bool = option(False, "Allow requests from web pages of other origins (CORS).")


@dataclasses.dataclass(frozen=True)
class LoadSettings:
    """Limits of concurrent and waiting work."""

    GROUP: ClassVar[str] = "Limits"

    max_concurrent_runs: int = option(
        0,
        "Maximum number of graph runs at a time, for all requests; others wait. 0 means two per core.",
        low=0, group="Batching and threads", essential=True,
    )
    max_pending_tokens: int = option(
        2**20,
        "Maximum number of tokens of all requests that are being computed or waiting; further requests are rejected.",
        low=1, essential=True,
    )


@dataclasses.dataclass(frozen=True)
class RequestLimitSettings:
    """Limits of one request."""

    GROUP: ClassVar[str] = "Limits"

    max_message_bytes: int = option(2**26, "Maximum size of a gRPC message in bytes.", low=1)
    max_body_bytes: int = option(2**26, "Maximum size of a REST body in bytes, before and after decompression.", low=1)
    max_batch_size: int = option(
        4096,
        "Maximum number of texts, examples or instances per request.",
        low=1, essential=True,
    )
    max_request_tokens: int = option(
        3 * 2**16,
        "Maximum number of tokens per request; a text is estimated at one token per four bytes, up to truncation.",
        low=1, essential=True,
    )
    max_output_elements: int = option(
        2**24,
        "Maximum number of elements of an output tensor; a larger one is not sent.",
        low=1,
    )


@dataclasses.dataclass(frozen=True)
class VersionSettings:
    """Loading and unloading of model versions."""

    GROUP: ClassVar[str] = "Models to serve"

    poll_seconds: float = option(
        1.0,
        "Seconds between checks for new versions; 0 checks once.",
        name="file_system_poll_wait_seconds", low=0,
    )
    max_num_load_retries: int = option(5, "Number of times that loading a version is retried.", low=0)
    load_retry_interval_micros: int = option(
        60000000,
        "Microseconds until loading is retried; a negative value waits for the next check.",
    )
    keep_previous_version: bool = option(
        False,
        "Keep the previous version loaded, as long as its directory exists, so that a rollback takes effect at the "
        "next check. This needs memory for a second model.",
    )
    num_load_threads: int = option(0, "Number of models that are loaded in parallel; 0 means sequentially.", low=0)
    num_unload_threads: int = option(
        0,
        "Number of threads that free versions; with 0, the last request of a version frees it.",
        low=0,
    )


@dataclasses.dataclass(frozen=True)
class ModelConfigSettings:
    """The file that lists the models, and who may replace it."""

    GROUP: ClassVar[str] = "Models to serve"

    model_config_file: str | None = option(
        None,
        "Text file with a ModelServerConfig that lists the models, instead of --model_base_path and --model_name.",
        essential=True,
    )
    model_config_poll_seconds: float = option(
        0.0,
        "Seconds between checks of --model_config_file for changes; 0 means never.",
        name="model_config_file_poll_wait_seconds", low=0,
    )
    enable_model_config_reload: bool = option(
        False,
        "Let anyone who reaches the gRPC port replace the models with HandleReloadConfigRequest. Default: only with "
        "--model_config_file.",
    )
    model_config_reload_base_paths: Sequence[str] | None = option(
        None,
        "Directories that may contain the base paths of such a request, in addition to those that the server is "
        "started with.",
    )
    allow_version_labels_for_unavailable_models: bool = option(
        False,
        "Allow a new label to point to a version that is not loaded.",
    )


@dataclasses.dataclass(frozen=True)
class BundleSettings:
    """Execution of model versions."""

    GROUP: ClassVar[str] = "Models to serve"

    enable_model_warmup: bool = option(True, "Warm up each version before serving it.")
    num_request_iterations: int = option(
        0,
        "Number of times that each warmup request is run; 0 means once.",
        name="num_request_iterations_for_warmup",
    )
    enable_per_model_batching_parameters: bool = option(
        False,
        "With --enable_batching: batch each version as specified in its own batching_params.pbtxt; versions without "
        "this file are not batched.",
        group="Batching and threads",
    )
    engine: str = option(
        "auto",
        "Engine for texts if an export has both a SavedModel and a LiteRT model, as with --export_for=cpu. auto: "
        "LiteRT answers requests of few texts, for which it was faster when the model was exported. litert: LiteRT "
        "answers all, and the SavedModel is not loaded; requires --export_dtype=int8 or --export_for=litert. "
        "saved_model: the SavedModel answers all, as in TensorFlow Serving.",
        choices=names.ENGINES,
    )
    prefer_tflite_model: bool = option(
        False,
        "Serve versions that contain a model.tflite from this file, with LiteRT; bert_tf exports then take token ids.",
    )
    num_tflite_pools: int = option(
        0,
        "Number of interpreters per model.tflite; each computes one request at a time, and they divide the cores. 0 "
        "means one.",
        low=0, high=MOST_TFLITE_POOLS,
    )
    check_method_names: bool = option(
        False,
        "Make Classify and Regress reject signatures that have another method's name.",
        name="enable_signature_method_name_check",
    )


@dataclasses.dataclass(frozen=True)
class SessionSettings:
    """TensorFlow's sessions: their files, threads, memory and precision."""

    GROUP: ClassVar[str] = "Batching and threads"

    tensorflow_session_config_file: str | None = option(None, "Text file with a ConfigProto for TensorFlow's sessions.")
    tensorflow_session_parallelism: int = option(
        0,
        "Same as both --tensorflow_intra_op_parallelism and --tensorflow_inter_op_parallelism.",
        low=0,
    )
    tensorflow_intra_op_parallelism: int = option(
        0,
        "Number of threads that compute one operation together; 0 means the number of cores. With 1, CPU exports "
        "(`--export_for=cpu`) and short texts have lower latency. LiteRT uses at most as many for a request.",
        low=0, essential=True,
    )
    tensorflow_inter_op_parallelism: int = option(
        0,
        "Number of threads that compute operations in parallel, for a request to a CPU export that runs alone; 0 means "
        "the number of cores.",
        low=0, essential=True,
    )
    per_process_gpu_memory_fraction: float = option(
        0.0,
        "Fraction of a GPU's memory to take; 0 means as TensorFlow chooses.",
        low=0, high=1,
    )
    mixed_precision: str | None = option(
        None,
        "Data type of matrix products: bfloat16 is used if the CPU supports it.",
    )
    platform_config_file: str | None = option(
        None,
        "Text file with a PlatformConfigMap, instead of the flags of sessions, warmup and batching.",
    )
    thread_pool_factory_config_file: str | None = option(
        None,
        "Thread pool factories, which are not supported: the flag is rejected.",
    )


@dataclasses.dataclass(frozen=True)
class RequestBatchingSettings:
    """Batching of requests."""

    GROUP: ClassVar[str] = "Batching and threads"

    enable_batching: bool = option(False, "Batch requests of several clients together.", essential=True)
    batching_parameters_file: str | None = option(
        None,
        "Text file with BatchingParameters: sizes of batches and of their queue.",
        essential=True,
    )
    max_batch_tokens: int = option(
        512,
        "Approximate maximum number of tokens per batch, padding included: sequences times the longest length.",
        low=1, essential=True,
    )


_XLA = "functions that a model marks for XLA are always compiled."


@dataclasses.dataclass(frozen=True)
class IgnoredSettings:
    """Flags of tensorflow_model_server that have no effect."""

    flush_filesystem_caches: bool = option(True, f"{NO_EFFECT}: TensorFlow keeps no caches of local files.")
    num_tflite_interpreters_per_pool: int = option(1, f"{NO_EFFECT}: LiteRT computes sequences one by one.")
    remove_unused_fields_from_bundle_metagraph: bool = option(True, f"{NO_EFFECT}: they are never kept.")
    skip_initialize_tpu: bool = option(False, f"{NO_EFFECT}: no TPU is used.")
    xla_cpu_compilation_enabled: bool = option(False, f"{NO_EFFECT}: {_XLA}")
    xla_gpu_compilation_enabled: bool = option(False, f"{NO_EFFECT}: {_XLA}")
