"""Settings of Apache Beam pipelines."""

import dataclasses
from typing import ClassVar

from bert_tf.utils.settings import option


@dataclasses.dataclass(frozen=True)
class BeamSettings:
    """Where a pipeline runs."""

    GROUP: ClassVar[str] = "Parallel processing"

    runner: str | None = option(
        None,
        "Runner for an Apache Beam pipeline, such as DirectRunner, FlinkRunner, SparkRunner or DataflowRunner. "
        "Default: no Beam.",
    )
    beam_options: str = option("", "Further options of the pipeline, as on Beam's command line.")
