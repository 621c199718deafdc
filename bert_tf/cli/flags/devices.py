"""Flags of devices: on what a run computes."""

from bert_tf.utils import names
from bert_tf.utils.settings import Flag

DEVICES = (
    Flag("distribution_strategy", "default", "One device; all GPUs of this machine; those of several machines, on "
         "each of which the same command runs; or a TPU. See docs/distributed.md.",
         choices=names.STRATEGIES),  # fmt: skip
    Flag("worker_hosts", [], "With multi_worker: host:port of every worker, the same list everywhere; the first one "
         "writes. Default: what the environment variable TF_CONFIG says.", "list"),  # fmt: skip
    Flag("task_index", None, "With --worker_hosts: which of them this is, from 0.", "integer", low=0),
)

# google-research/bert's, for Cloud TPUs.
GOOGLE_TPU = (
    Flag("use_tpu", False, "The same as --distribution_strategy=tpu.", "bool"),
    Flag("tpu_name", None, "The Cloud TPU, by name or as grpc://host:port; default: those of this machine."),
    Flag("tpu_zone", None, "Its zone; default: this machine's."),
    Flag("gcp_project", None, "Its project; default: this machine's."),
    Flag("master", None, "Its address, instead of --tpu_name."),
    Flag("num_tpu_cores", 8, "No effect here.", "integer"),
    Flag("iterations_per_loop", 1000, "No effect here.", "integer"),
)
