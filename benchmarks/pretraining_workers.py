"""One peer of pretraining_speed.py and packed_rows.py: a process that makes whole pretraining steps.

    python benchmarks/pretraining_workers.py {bert_tf,torch,keras_hub} CONFIG PRECISION [{nsp,none} [packed]]

How it is told and answers: `peers.serve`. Weights are random; what starts as 0 or 1 everywhere is moved, for a compiler
may leave out what adds 0 or multiplies by 1.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from peers import keras_hub_backbone, serve

PEAK, WARM_UP, STEPS, DECAY, CLIP = 1e-4, 100, 10_000, 0.01, 1.0  # of all peers

TARGETS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights", "next_sentence_labels")


def shaken(shape, seed=0):
    """What is added to every bias, gamma and beta: float32 of their shape."""
    return np.random.default_rng(seed).normal(0, 0.02, shape).astype("float32")


def bert_tf_step(config, precision, sentences="nsp", packed=""):
    """Ours, as `pretrain run` builds it by default."""
    import keras
    import tensorflow as tf

    from bert_tf.models.config import EncoderConfig
    from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
    from bert_tf.training.adamw import AdamW
    from bert_tf.training.loss_spike_guard import GuardConfig
    from bert_tf.training.schedules import WarmupLinearDecay
    from bert_tf.training.step import StepConfig, TrainStep

    keras.config.set_dtype_policy(precision)
    task = PretrainingTask(EncoderConfig.load(config), sentences, packed == "packed")
    model = task.build_model()
    for variable in model.variables:
        if len(variable.shape) == 1:
            variable.assign_add(shaken(variable.shape))
    optimizer = AdamW(WarmupLinearDecay(PEAK, STEPS, WARM_UP), DECAY)
    optimizer.build(model.trainable_variables)
    step = TrainStep(task, model, optimizer, StepConfig(clip_norm=CLIP, guard=GuardConfig(), fixed_shapes=True))

    def run(batch):
        return float(step({name: tf.constant(values) for name, values in batch.items()})["loss"])

    return run


def keras_hub_step(config, precision):
    """KerasHub's backbone and masked-LM head, which gathers, and a dense layer; compiled as Keras does by default."""
    import keras

    model = _keras_hub_model(config, precision)
    for variable in model.variables:
        if len(variable.shape) == 1 and variable.dtype == "float32":
            variable.assign_add(shaken(variable.shape))
    rate = keras.optimizers.schedules.PolynomialDecay(PEAK, STEPS, 0.0)
    optimizer = keras.optimizers.AdamW(rate, weight_decay=DECAY, global_clipnorm=CLIP)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, {"mlm": loss, "nsp": loss})
    names = {"token_ids": "input_ids", "padding_mask": "input_mask", "segment_ids": "segment_ids"}
    names["mask_positions"] = "masked_lm_positions"

    def run(batch):
        labels = {"mlm": batch["masked_lm_ids"], "nsp": batch["next_sentence_labels"]}
        weights = {"mlm": batch["masked_lm_weights"], "nsp": np.ones(len(labels["nsp"]), "float32")}
        return float(model.train_on_batch({k: batch[v] for k, v in names.items()}, labels, weights)[0])

    return run


def _keras_hub_model(config, precision):
    import keras
    import keras_hub

    backbone = keras_hub_backbone(config, precision)
    positions = keras.Input((None,), dtype="int32", name="mask_positions")
    head = keras_hub.layers.MaskedLMHead(
        vocabulary_size=backbone.vocabulary_size,
        token_embedding=backbone.token_embedding,
        intermediate_activation=lambda x: keras.activations.gelu(x, approximate=True),
    )
    outputs = {
        "mlm": head(backbone.output["sequence_output"], mask_positions=positions),
        "nsp": keras.layers.Dense(2, dtype="float32")(backbone.output["pooled_output"]),
    }
    return keras.Model({**backbone.input, "mask_positions": positions}, outputs)


def torch_step(config, precision):
    """Transformers' BertForPreTraining, its decoder given the gathered places only; autocast for bfloat16."""
    import torch

    model = _torch_model(config)
    optimizer = _Fastest(model.parameters())
    cross_entropy = torch.nn.functional.cross_entropy

    def run(batch):
        b = {k: torch.from_numpy(v if v.dtype == "float32" else v.astype("int64")) for k, v in batch.items()}
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "mixed_bfloat16"):
            outputs = model.bert(b["input_ids"], b["input_mask"], b["segment_ids"])
            rows = torch.arange(len(b["input_ids"]))[:, None]
            gathered = outputs.last_hidden_state[rows, b["masked_lm_positions"]]
            mlm, nsp = model.cls(gathered, outputs.pooler_output)
        losses = cross_entropy(mlm.float().flatten(0, 1), b["masked_lm_ids"].flatten(), reduction="none")
        weights = b["masked_lm_weights"].flatten()
        loss = (losses * weights).sum() / weights.sum()
        loss += cross_entropy(nsp.float(), b["next_sentence_labels"].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return float(loss)

    return run


def _torch_model(config):
    import torch
    from transformers import BertConfig, BertForPreTraining

    with open(config) as file:
        settings = json.load(file) | {"hidden_act": "gelu_pytorch_tanh"}  # what Google's "gelu" means, and KerasHub's
    model = BertForPreTraining(BertConfig(**settings, attn_implementation="sdpa")).train()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += torch.from_numpy(shaken(tuple(parameter.shape)))
    return model


class _Fastest:
    """torch's AdamW in the faster of its two fast forms, which the first steps try in turn."""

    def __init__(self, parameters):
        import torch

        parameters = list(parameters)
        make = torch.optim.AdamW
        self._forms = {form: make(parameters, lr=PEAK, weight_decay=DECAY, **{form: True}) for form in _FORMS}
        self._seconds = {form: [] for form in _FORMS}

    def step(self):
        form = min(self._forms, key=lambda form: len(self._seconds[form]))
        start = time.perf_counter()
        self._forms[form].step()
        self._seconds[form].append(time.perf_counter() - start)
        self._forms[form].zero_grad()
        if len(self._forms) > 1 and all(len(times) >= 3 for times in self._seconds.values()):
            best = min(_FORMS, key=lambda form: min(self._seconds[form]))
            self._forms = {best: self._forms[best]}
            print(f"AdamW(..., {best}=True) is the faster: {self._seconds}", file=sys.stderr)


_FORMS = ("fused", "foreach")


def main():
    kind, *arguments = sys.argv[1:]
    make = {"bert_tf": bert_tf_step, "torch": torch_step, "keras_hub": keras_hub_step}[kind]
    serve(lambda: make(*arguments))


if __name__ == "__main__":
    main()
