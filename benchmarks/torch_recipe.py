"""google-research/bert's fine-tuning recipe in torch: the peer whose scores `torch_*_scores.json` keep."""

import json
import pathlib
import random
import sys
import time

import torch
import transformers

POOL = 50  # batches that are sorted by length together, so that little is padding


class Adam(torch.optim.Optimizer):
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w -= rate (m / (sqrt(v) + 1e-6) + decay w).

    With `bias_correction`, m and v are divided by 1 - b1^t and 1 - b2^t, which BERT's own does not do.
    """

    def __init__(self, model, bias_correction):
        self.bias_correction = bias_correction
        plain = [w for name, w in model.named_parameters() if "LayerNorm" in name or name.endswith("bias")]
        known = {id(w) for w in plain}
        decayed = [w for w in model.parameters() if id(w) not in known]
        super().__init__([{"params": decayed, "decay": 0.01}, {"params": plain, "decay": 0.0}], {"lr": 0.0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in (w for w in group["params"] if w.grad is not None):
                state = self.state[w]
                m = state.setdefault("m", torch.zeros_like(w)).lerp_(w.grad, 0.1)
                v = state.setdefault("v", torch.zeros_like(w)).mul_(0.999).addcmul_(w.grad, w.grad, value=0.001)
                if self.bias_correction:
                    state["t"] = state.get("t", 0) + 1
                    m, v = m / (1 - 0.9 ** state["t"]), v / (1 - 0.999 ** state["t"])
                w.mul_(1 - group["lr"] * group["decay"]).addcdiv_(m, v.sqrt().add_(1e-6), value=-group["lr"])


def training_batches(lengths, batch_size, steps, seed):
    """Yields lists of examples: a new random order each epoch, pools of it sorted by length and cut into batches."""
    rng, order = random.Random(seed), []
    while len(order) < steps * batch_size:
        order += rng.sample(range(len(lengths)), len(lengths))
    pool = POOL * batch_size
    for start in range(0, steps * batch_size, pool):
        part = sorted(order[start : min(start + pool, steps * batch_size)], key=lambda i: lengths[i])
        batches = [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
        yield from rng.sample(batches, len(batches))


def tensors(rows):
    """Returns input_ids, attention_mask and token_type_ids [B, longest] of rows (ids, segments)."""
    width = max(len(ids) for ids, _ in rows)

    def padded(lists):
        return torch.tensor([values + [0] * (width - len(values)) for values in lists])

    ids, segments = zip(*rows, strict=True)
    return {
        "input_ids": padded(ids),
        "attention_mask": padded([[1] * len(row) for row in ids]),
        "token_type_ids": padded(segments),
    }


def train(model, rows, loss_of, recipe, seed):
    """Trains in place: linear warm-up over a tenth of the steps, then linear decay; gradients clipped to norm 1.

    Args:
        rows: (ids, segments) of every example.
        loss_of: (model, batch, examples) -> the mean loss, torch [].
        recipe: dict of batch, rate, epochs, precision and, for Adam with bias correction, bias_correction=True.
    """
    steps = int(len(rows) / recipe["batch"] * recipe["epochs"])
    warm_up, optimizer, start = int(steps * 0.1), Adam(model, recipe.get("bias_correction", False)), time.time()
    torch.manual_seed(seed)
    model.train()
    lengths = [len(ids) for ids, _ in rows]
    for step, examples in enumerate(training_batches(lengths, recipe["batch"], steps, seed)):
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe["precision"] == "bfloat16"):
            loss = loss_of(model, tensors([rows[i] for i in examples]), examples)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rate = recipe["rate"] * (step / warm_up if step < warm_up else 1 - step / steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        if step % 50 == 0:
            left = (time.time() - start) / (step + 1) * (steps - step) / 60
            print(f"step {step}/{steps}  loss {loss.item():.4f}  {left:.1f} min left", file=sys.stderr, flush=True)


def outputs(model, rows, recipe, batch=32):
    """Yields (example, what the model says of the batch, place in the batch), the longest first."""
    order = sorted(range(len(rows)), key=lambda i: -len(rows[i][0]))
    model.eval()
    for start in range(0, len(order), batch):
        examples = order[start : start + batch]
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=recipe["precision"] == "bfloat16"):
            out = model(**tensors([rows[i] for i in examples]))
        for place, example in enumerate(examples):
            yield example, out, place


def add_recipe(parser, scores, batch, rate, epochs):
    """Adds the recipe's arguments, with these defaults, and --out, the file `scores` beside the scripts."""
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--rate", type=float, default=rate)
    parser.add_argument("--epochs", type=float, default=epochs)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--out", default=pathlib.Path(__file__).with_name(scores))


def recipe_of(options):
    """Returns the recipe among the options, as `train` takes it."""
    return {name: getattr(options, name) for name in ("batch", "rate", "epochs", "precision")}


def kept(path):
    """Returns what the JSON file at `path` keeps: a dict, empty where there is no file."""
    path = pathlib.Path(path)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(path, name, entry):
    """Puts `entry` under `name` into the JSON file at `path`, with how it was made."""
    made_by = f"torch {torch.__version__}, transformers {transformers.__version__}"
    scores = kept(path) | {name: entry | {"made_by": made_by}}
    pathlib.Path(path).write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
