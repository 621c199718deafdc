"""Ideas for fine-tuning on small data, each compared with the standard recipe on the same examples and seeds.

    python benchmarks/fine_tuning_ideas.py --model=MINILM --glue_dir=glue --sst_dir=sst2-tutorial --results=ideas.jsonl

RTE, CoLA, STS-B and SST-2 (train.tsv and test.tsv of --sst_dir: text and label, without a header) with --examples
training examples each. A seed draws these examples, their order, the weights of the new head and the dropout masks;
all variants share them. The ideas:

    r_drop        two passes with different dropout masks, and their symmetric divergence (Liang et al. 2021)
    multi_sample  mean loss over five dropout masks of the head (Inoue 2019)
    free_lb       two steps of adversarial noise on the word embeddings (Zhu et al. 2020)
    smart         divergence of the output from that under adversarial noise (Jiang et al. 2020, without its momentum)
    layerwise     --layerwise_lr_decay=0.9
    held_out      a tenth of the examples, drawn automatically, chooses the best of ten or more checkpoints
    lora          LoRA of rank 8 with a learning rate of 1e-3
    lora_plus     the same with a ratio of 16 between the learning rates of B and A (Hayou et al. 2024), which have
                  LoRA's as their geometric mean
    longer        twice the epochs: as much time as r_drop and free_lb take

The word embeddings are frozen in all variants, because their update takes a fifth of a step's time on a CPU.
Everything runs in one process, with the graphs of a variant shared by its runs. Each run adds a line to --results, and
the same command continues where it was stopped. --only_report prints the tables of the runs that are there. This
command makes or continues the published table:

    python benchmarks/fine_tuning_ideas.py --model=minilm --glue_dir=glue --sst_dir=sst2-tutorial --sets=sst-2 \\
        --results=benchmarks/results/fine-tuning-ideas.jsonl --examples=1000 --eval_examples=1000 --max_seq_length=64 \\
        --variants=standard,r_drop,multi_sample,free_lb,smart,layerwise,held_out,lora,lora_plus

With --sets=sts-b, cola or rte, it adds that dataset. This one is for the tables with all examples:

    python benchmarks/fine_tuning_ideas.py --model=minilm --glue_dir=glue --sst_dir=sst2-tutorial --sets=cola,rte \\
        --results=benchmarks/results/fine-tuning-ideas-all.jsonl --examples=10000 --variants=standard,layerwise,lora

To continue, the model and the two directories must have the same names.
"""

import dataclasses
import functools
import json
import math
import os
import pathlib
import statistics
import sys
import time
import zlib
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import keras
import numpy as np
import tensorflow as tf
import training_ideas
from absl import app, flags, logging

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.loading import load_description
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.data.batch_order import scoring_order, training_order
from bert_tf.data.dataset import EncodedDataset, build_batches
from bert_tf.models.lora import Lora, is_adapter
from bert_tf.tasks.classification.encoding import tokenize_examples
from bert_tf.tasks.classification.sources import make_source
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.layer_rates import LayerRates
from bert_tf.training.optimizers import make_optimizer
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.scoring import EvalBatches, Evaluator
from bert_tf.training.settings import AdamConfig
from bert_tf.training.step import StepConfig, TrainStep
from bert_tf.training.word_rate import EmbeddingLrFactor

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "The encoder to start from.", required=True)
flags.DEFINE_string("glue_dir", None, "GLUE's folders, with RTE, CoLA and STS-B.", required=True)
flags.DEFINE_string("sst_dir", None, "The folder with SST-2 as text and label.", required=True)
flags.DEFINE_string("results", None, "File with one JSON line per run.", required=True)
flags.DEFINE_list("seeds", ["1", "2", "3", "4", "5"], "Runs of each variant on each set.")
flags.DEFINE_list("sets", ["rte", "cola", "sts-b", "sst-2"], "Some of the sets.")
flags.DEFINE_list("variants", None, "Some of the variants. Default: all.")
flags.DEFINE_integer("examples", 1000, "Training examples of each run.")
flags.DEFINE_integer("eval_examples", 2000, "At most so many examples of the evaluation file, the same for all runs.")
flags.DEFINE_float("num_train_epochs", 3.0, "Of each run.")
flags.DEFINE_float("learning_rate", 5e-5, "Of each run without adapters.")
flags.DEFINE_integer("train_batch_size", 32, "Of each run.")
flags.DEFINE_integer("max_seq_length", 128, "Of each run.")
flags.DEFINE_string("precision", "mixed_bfloat16", "Of each run.")
flags.DEFINE_bool("only_report", False, "Make no run.")

PLACES = ("model", "glue_dir", "sst_dir")
RECIPE = (
    "examples", "eval_examples", "num_train_epochs", "learning_rate", "train_batch_size", "max_seq_length", "precision",
)  # fmt: skip
SCORES = {"rte": ("accuracy",), "cola": ("matthews",), "sts-b": ("pearson", "spearman"), "sst-2": ("accuracy",)}
LORA_RATE = 1e-3
HELD_OUT, CHECKPOINTS = 0.1, 10


@dataclasses.dataclass(frozen=True)
class Variant:
    """What differs from the standard recipe; `base` is the variant that it is compared with, `epochs` a factor."""

    idea: Callable = training_ideas.standard
    lora: bool = False
    rules: tuple = ()
    held_out: bool = False
    base: str = "standard"
    epochs: float = 1.0


LAYERS = 6  # of MiniLM
VARIANTS = {
    "standard": Variant(),
    "r_drop": Variant(training_ideas.r_drop),
    "multi_sample": Variant(training_ideas.multi_sample),
    "free_lb": Variant(training_ideas.free_lb),
    "smart": Variant(training_ideas.smart),
    "layerwise": Variant(rules=LayerRates(LAYERS, layerwise_lr_decay=0.9).rules()),
    "held_out": Variant(held_out=True),
    "lora": Variant(lora=True),
    "lora_plus": Variant(lora=True, rules=((".*/lora_A", 0.25, 0), (".*/lora_B", 4.0, 0)), base="lora"),
    "longer": Variant(epochs=2.0),
}


class IdeaStep(TrainStep):
    """Training step of an idea; the seed of its dropout masks is a variable, so that one graph serves all seeds."""

    def __init__(self, idea, task, model, optimizer):
        self.idea, self.run_seed = idea, tf.Variable(0, trainable=False)
        super().__init__(task, model, optimizer, StepConfig())

    def _loss_and_gradients(self, batch, normalizers, seed, loss_scale):
        loss, gradients = self.idea(self, batch, normalizers, seed + tf.stack([self.run_seed, 0]))
        return {"loss": loss}, self._unscaled(gradients, loss_scale)


# === Data ===


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A set's examples, all tokenized once, and its kind: (number of outputs, problem)."""

    train: EncodedDataset
    dev: EncodedDataset
    kind: tuple[int, str]


@functools.cache
def data_set(name, tokenizer) -> DataSet:
    if name == "sst-2":
        files = {"train": f"{FLAGS.sst_dir}/train.tsv", "dev": f"{FLAGS.sst_dir}/test.tsv"}
        source = make_source(None, None, files, header=False, text_columns=(0,), label_column=1)
    else:
        folder = {"rte": "RTE", "cola": "CoLA", "sts-b": "STS-B"}[name]
        source = make_source(name, os.path.join(FLAGS.glue_dir, folder), {})
    texts = source.read(["train", "dev"])
    labels = source.labels(texts)
    tokens = [tokenize_examples(tokenizer, texts[split], FLAGS.max_seq_length, labels, source.problem)
              for split in ("train", "dev")]  # fmt: skip
    drawn = np.random.default_rng(46).permutation(len(tokens[1]))[: FLAGS.eval_examples]  # STS-B's file is sorted
    return DataSet(tokens[0], take(tokens[1], drawn), (len(labels) if labels else 1, source.problem))


def take(examples: EncodedDataset, chosen) -> EncodedDataset:
    """Returns some of the examples, in the order of their indices `chosen`."""
    spans = [np.arange(examples.splits[i], examples.splits[i + 1]) for i in chosen]
    tokens = np.concatenate(spans)
    return dataclasses.replace(
        examples,
        features={name: values[tokens] for name, values in examples.features.items()},
        splits=np.cumsum([0, *map(len, spans)]),
        targets={name: values[chosen] for name, values in examples.targets.items()},
        truncation=None,
    )


def scoring(examples: EncodedDataset) -> EvalBatches:
    order = scoring_order(examples.lengths, 64)
    return EvalBatches(lambda: build_batches(examples, order, FLAGS.max_seq_length), order, examples)


# === Runs ===


class Network:
    """A model for one kind of target, with or without adapters, and the steps and optimizers that train it.

    Its weights are set back before each run, which saves the time to build the graphs again.
    """

    def __init__(self, kind, config, lora):
        config = dataclasses.replace(config, lora=Lora(8, 8.0) if lora else None)
        metrics = ("accuracy", "matthews") if kind[1] == "single_label" else ("pearson", "spearman")
        self.task = ClassificationTask(config, *kind, metric_names=metrics)
        self.model = self.task.build_model()
        EmbeddingLrFactor(0.0).freeze_in(self.model.variables)
        self.scorer = Evaluator(self.task, self.model)
        checkpoint = open_checkpoint(FLAGS.model, config.model_type)
        old = [v for v in self.model.variables if not is_adapter(v.path)]
        loaded = set(assign_weights(checkpoint, old, (*heads.fresh(self.task), *heads.unused(self.task))).loaded)
        self.start = {v.path: v.numpy() for v in self.model.variables if v.path in loaded}
        self.optimizers, self.steps = {}, {}

    def step(self, idea, rules):
        """Returns the step of an idea with the learning-rate rules, compiled the first time on a tiny batch."""
        if (idea, rules) not in self.steps:
            if rules not in self.optimizers:
                self.optimizers[rules] = make_optimizer("adamw", 0.0, AdamConfig(), rules)
                self.optimizers[rules].build(self.model.trainable_variables)
            self.steps[idea, rules] = IdeaStep(idea, self.task, self.model, self.optimizers[rules])
        return self.steps[idea, rules]

    def set_back(self, step, seed):
        """Assigns the checkpoint's weights, new ones of the head and adapters, and an optimizer without moments."""
        for variable in self.model.variables:
            variable.assign(self.start[variable.path] if variable.path in self.start else new_weights(variable, seed))
        for slot in step.optimizer.slots(self.model.trainable_variables).values():
            slot.assign(tf.zeros(slot.shape))
        step.optimizer.iterations.assign(0)
        step.run_seed.assign(seed)


def new_weights(variable, seed):
    """Returns initial weights as the layers define them, a function of the path and the seed."""
    shape, own = variable.shape, zlib.crc32(variable.path.encode()) % 2**20 + seed
    if variable.path.endswith("output_weights"):
        return keras.initializers.TruncatedNormal(stddev=0.02, seed=own)(shape)
    if variable.path.endswith("lora_A"):
        return keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform", seed=own)(shape)
    assert variable.path.endswith(("lora_B", "output_bias")), variable.path
    return np.zeros(shape, np.float32)


def run(name, data: DataSet, network: Network, variant: Variant, seed):
    """Trains and evaluates; returns {"scores": {which weights: score}, "cpu_seconds" of training, "steps"}."""
    step = network.step(variant.idea, variant.rules)
    drawn = np.random.default_rng([seed, 46]).permutation(len(data.train))[: FLAGS.examples]
    held = drawn[: int(len(drawn) * HELD_OUT)] if variant.held_out else drawn[:0]
    train, chooser = take(data.train, drawn[len(held) :]), scoring(take(data.train, held)) if len(held) else None
    size = FLAGS.train_batch_size
    steps = int(len(train) / size * FLAGS.num_train_epochs * variant.epochs)
    order = training_order(train.lengths, size, steps, seed)
    rate = LORA_RATE if variant.lora else FLAGS.learning_rate
    schedule = WarmupLinearDecay(rate, steps, steps // 10)
    rates = [float(schedule(n)) for n in range(steps)]
    if not step.has_moved():  # compile it before the time counts
        step(next(iter(build_batches(train, order[:1], FLAGS.max_seq_length))))
    network.set_back(step, seed)
    best = {}
    begin = time.process_time()
    for n, batch in enumerate(build_batches(train, order, FLAGS.max_seq_length), 1):
        step.optimizer.learning_rate = rates[n - 1]
        results = step(batch)
        if chooser and (n % max(1, steps // CHECKPOINTS) == 0 or n == steps):
            keep_better(best, score(name, network, chooser), network.model)
    seconds = time.process_time() - begin
    assert math.isfinite(float(results["loss"]))
    dev = scoring(data.dev)
    scores = {"last": score(name, network, dev)["score"]}
    for criterion, (_, weights) in best.items():
        for variable, value in zip(network.model.variables, weights, strict=True):
            variable.assign(value)
        scores[f"best_{criterion}"] = score(name, network, dev)["score"]
    return {"scores": scores, "cpu_seconds": seconds, "steps": steps}


def score(name, network, examples: EvalBatches):
    """Returns {"score": mean of the set's metrics, in percent, "loss": mean loss}."""
    found = network.scorer.scores(examples)
    return {"score": 100 * statistics.fmean(found[metric] for metric in SCORES[name]), "loss": found["loss"]}


def keep_better(best, found, model):
    """Stores the weights in `best` under each criterion by which they are better than those before."""
    values = {"score": found["score"], "loss": -found["loss"]}
    better = [key for key, value in values.items() if key not in best or value > best[key][0]]
    weights = [v.numpy() for v in model.variables] if better else None
    best.update({key: (values[key], weights) for key in better})


# === Report ===


def recipe():
    """Returns the flags that all runs of a table share; of paths the name, so that another machine can continue."""
    names = {name: os.path.basename(os.path.abspath(FLAGS[name].value)) for name in PLACES}
    return names | {name: FLAGS[name].value for name in RECIPE}


def read_results():
    """Returns the lines of --results: {(set, variant, seed): line}."""
    path = pathlib.Path(FLAGS.results)
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()
    found = {(line["set"], line["variant"], line["seed"]): line for line in lines}
    for line in found.values():
        if line["recipe"] != recipe():
            raise app.UsageError(f"{path} has runs of another recipe, {line['recipe']}. Pass it, or another --results.")
    return found


def rows_of(found):
    """Returns {row: (variant that it is compared with, {(set, seed): score})}."""
    rows = {}
    for (name, variant, seed), line in found.items():
        if str(seed) not in FLAGS.seeds:
            continue
        for weights, value in line["scores"].items():
            row = f"{variant}, {weights}" if VARIANTS[variant].held_out else variant
            rows.setdefault(row, (VARIANTS[variant].base, {}))[1][name, seed] = value
    return rows


def report(found):
    """Prints the means with standard deviations, and the paired differences with standard errors."""
    rows = rows_of(found)
    ratios = {row: cost(found, row.partition(",")[0]) for row in rows}
    for cell in (mean_cell, difference_cell):
        print(f"\n| | {' | '.join(FLAGS.sets)} | CPU time |\n|---|{'---|' * (len(FLAGS.sets) + 1)}")
        for row, (base, values) in rows.items():
            if cell is difference_cell and row == "standard":
                continue
            cells = [cell(name, values, rows.get(base, (base, {}))[1]) for name in FLAGS.sets]
            print(f"| {row} | {' | '.join(cells)} | {ratios[row]:.2f} |")


def mean_cell(name, values, _):
    own = [value for (each, _), value in values.items() if each == name]
    return f"{statistics.fmean(own):.1f} ({statistics.stdev(own):.1f})" if len(own) > 1 else ""


def difference_cell(name, values, base):
    pairs = [value - base[key] for key, value in values.items() if key[0] == name and key in base]
    if len(pairs) < 2:
        return ""
    mean, error = statistics.fmean(pairs), statistics.stdev(pairs) / math.sqrt(len(pairs))
    mark = "**" if len(pairs) >= 5 and abs(mean) > 2 * error else ""  # fewer runs say little about the error itself
    return f"{mark}{mean:+.2f} ({error:.2f}){mark}"


def cost(found, variant):
    """Returns the CPU time of a variant's training, divided by that of the standard recipe in the same cells."""
    own = {(name, seed): line for (name, each, seed), line in found.items() if each == variant}
    both = [(line, found[name, "standard", seed]) for (name, seed), line in own.items() if
            (name, "standard", seed) in found]  # fmt: skip
    return sum(a["cpu_seconds"] for a, _ in both) / sum(b["cpu_seconds"] for _, b in both) if both else math.nan


def check_choices():
    for flag, known in (("sets", SCORES), ("variants", VARIANTS)):
        unknown = [name for name in FLAGS[flag].value or () if name not in known]
        if unknown:
            raise app.UsageError(f"--{flag} must be some of {', '.join(known)}; got {', '.join(unknown)}.")


def main(_):
    check_choices()
    found = read_results()
    if not FLAGS.only_report:
        keras.config.set_dtype_policy(FLAGS.precision)
        logging.set_verbosity(logging.WARNING)
        described, networks = load_description([FLAGS.model]), {}
        if described.config.num_hidden_layers != LAYERS:
            raise app.UsageError(f"--model must have {LAYERS} layers; got {described.config.num_hidden_layers}.")
        for seed in map(int, FLAGS.seeds):
            for name in FLAGS.sets:
                data = data_set(name, described.tokenizer)
                for key in FLAGS.variants or VARIANTS:
                    if (name, key, seed) in found:
                        continue
                    variant = VARIANTS[key]
                    which = data.kind, variant.lora
                    networks[which] = networks.get(which) or Network(data.kind, described.config, variant.lora)
                    line = {"set": name, "variant": key, "seed": seed}
                    line |= run(name, data, networks[which], variant, seed)
                    line["recipe"] = recipe()
                    found[name, key, seed] = line
                    with open(FLAGS.results, "a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
                    print(f"{time.strftime('%H:%M:%S')} {name} {key} {seed} {line['scores']} "
                          f"{line['cpu_seconds']:.1f} s", flush=True)  # fmt: skip
    report(found)


if __name__ == "__main__":
    app.run(main)
