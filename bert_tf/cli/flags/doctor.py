"""Flags of the doctor."""

from bert_tf.utils.settings import Flag

DOCTOR = (
    Flag("json", False, "Print JSON instead of lines: whether all is healthy, and the findings with their figures.",
         "bool"),  # fmt: skip
)
