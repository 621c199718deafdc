"""One of several workers that train as one, and print as JSON what came out; `multi_worker_test.py` starts them.

python -m tests.training.multi_worker HOSTS INDEX FOLDER
"""

import json
import os
import signal
import sys

from bert_tf.training import strategies, workers

HOSTS, INDEX, FOLDER = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
STRATEGY = strategies.make_strategy("multi_worker", HOSTS, INDEX)  # before TensorFlow does anything else

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager  # noqa: E402
from bert_tf.training.interruption import Stopped  # noqa: E402
from bert_tf.training.trainer import Trainer  # noqa: E402
from tests.training import multi_worker_test as test  # noqa: E402
from tests.training import pretraining_losses  # noqa: E402

SAVED = []


def counted(self, step, tensors, save=CheckpointManager.save):
    """Notes what this process saves."""
    SAVED.append(step)
    return save(self, step, tensors)


def error(function, *args):
    try:
        function(*args)
    except (ValueError, Stopped) as raised:
        return str(raised)


def refuse():
    raise ValueError("The disk is full.")


def stop(step):
    if step == 1 and INDEX == 1:
        os.kill(os.getpid(), signal.SIGTERM)


def main():
    CheckpointManager.save = counted
    folder = os.path.join(FOLDER, "stopped")
    with STRATEGY.scope():
        results = {
            "losses": test.train(os.path.join(FOLDER, "run")),
            "replicas": STRATEGY.num_replicas_in_sync,
            "chief": workers.is_chief(),
            "events": os.path.isdir(os.path.join(FOLDER, "run", "train")),
            "stopped": error(test.train, folder, stop),
            "steps": CheckpointManager(folder).steps(),
            "again": test.train(folder),
            "pretraining": pretraining_losses.losses(os.path.join(FOLDER, "pretraining")),
            "total": workers.total([INDEX + 1, 2**40]),
            "failed": error(workers.by_chief, refuse),
            "differing": error(workers.check_equal_on_workers, 5 + INDEX, "step"),
        }
        job = Trainer(test.TASK, test.run(os.path.join(FOLDER, "run")))
        job.restore()
        results["scores"], results["outputs"] = job.scores(test.SCORING), job.outputs(test.SCORING).tolist()
    print(json.dumps(results | {"saved": SAVED}))


if __name__ == "__main__":
    main()
