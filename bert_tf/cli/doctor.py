"""Says whether this machine and its packages are fit for bert_tf, and what to do about what is not.

    bert-tf doctor

prints a line for each thing that it looked at and a remedy below each fault. The status is 1 if anything is broken.
It works where TensorFlow is missing or does not import. docs/doctor.md.
"""

import json
import os
import sys

from bert_tf.cli.flags.doctor import DOCTOR

FLAGS = DOCTOR


def main(settings):
    """Prints the findings; ends with status 1 where there is a fault."""
    from bert_tf.cli.doctor_checks import checkup
    from bert_tf.cli.doctor_checks.findings import is_healthy, to_json, to_text

    findings = list(checkup.examine(os.environ))
    print(json.dumps(to_json(findings), indent=2) if settings.json else to_text(findings), flush=True)
    if not is_healthy(findings):
        sys.exit(1)
