"""One peer of training_speed.py: a process that trains on the batches it is told to and says how long each took.

    python benchmarks/training_workers.py {bert_tf,bert_tf_packed,torch,keras_hub} CHECKPOINT PRECISION [OPTIONS]

OPTIONS are of ours, `StepConfig`'s as JSON.

How it is told and answers: `peers.serve`.
"""

import functools
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from peers import gpus, keras_hub_backbone, serve

PEAK, WARM_UP, STEPS = 5e-5, 10, 10_000  # of the schedule; it costs every peer the same


def bert_tf_step(checkpoint, precision, **options):
    """Ours, as `train classifier` builds it; `options` of its `StepConfig`."""
    import keras
    import tensorflow as tf

    from bert_tf.checkpoints import heads
    from bert_tf.checkpoints.assign_weights import assign_weights
    from bert_tf.models.config import EncoderConfig
    from bert_tf.tasks.classification.task import ClassificationTask
    from bert_tf.training.adamw import AdamW
    from bert_tf.training.schedules import WarmupLinearDecay
    from bert_tf.training.step import StepConfig, TrainStep

    keras.config.set_dtype_policy(precision)
    task = ClassificationTask(EncoderConfig.load(checkpoint), 2)
    model = task.build_model()
    assign_weights(checkpoint, model.variables, (*heads.fresh(task), *heads.unused(task)))
    optimizer = AdamW(WarmupLinearDecay(PEAK, STEPS, WARM_UP))
    optimizer.build(model.trainable_variables)
    options.setdefault("use_xla", bool(gpus()))  # as in long runs
    step = TrainStep(task, model, optimizer, StepConfig(**options))

    def run(batch):
        return float(step({name: tf.constant(values) for name, values in batch.items()})["loss"])

    return run


def torch_step(checkpoint, precision):
    """Transformers on PyTorch: the recipe of its own run_glue example, with autocast for bfloat16."""
    import torch
    from transformers import BertForSequenceClassification

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = BertForSequenceClassification.from_pretrained(checkpoint, num_labels=2).train().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / WARM_UP, 1 - step / STEPS))

    def run(batch):
        b = {k: torch.from_numpy(v.astype("int64")).to(device) for k, v in batch.items()}
        with torch.autocast(device, torch.bfloat16, enabled=precision == "mixed_bfloat16"):
            loss = model(
                input_ids=b["input_ids"],
                attention_mask=b["input_mask"],
                token_type_ids=b["segment_ids"],
                labels=b["label_ids"],
            ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        return float(loss)

    return run


def keras_hub_step(checkpoint, precision):
    """KerasHub's BertBackbone with the same head, compiled as Keras does by default; random weights cost the same."""
    import keras

    backbone = keras_hub_backbone(checkpoint, precision)
    pooled = keras.layers.Dropout(0.1)(backbone.output["pooled_output"])
    model = keras.Model(backbone.input, keras.layers.Dense(2, dtype="float32")(pooled))
    optimizer = keras.optimizers.AdamW(PEAK, weight_decay=0.01, global_clipnorm=1.0)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def run(batch):
        names = {"token_ids": "input_ids", "padding_mask": "input_mask", "segment_ids": "segment_ids"}
        return float(model.train_on_batch({k: batch[v] for k, v in names.items()}, batch["label_ids"]))

    return run


def main():
    kind, checkpoint, precision, *options = sys.argv[1:]
    options = json.loads(options[0]) if options else {}
    ours = functools.partial(bert_tf_step, pack_examples=kind == "bert_tf_packed", **options)
    make = {"torch": torch_step, "keras_hub": keras_hub_step}.get(kind, ours)
    serve(lambda: make(checkpoint, precision))


if __name__ == "__main__":
    main()
