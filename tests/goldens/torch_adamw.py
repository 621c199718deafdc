"""Writes adamw.json: ten steps of torch's AdamW, which corrects its moments, on three small weights.

    PYTHON_WITH_TORCH tests/goldens/torch_adamw.py tests/goldens/adamw.json

{"torch": its version, "numbers": {"beta_1", "beta_2", "epsilon", "weight_decay_rate"}, "rates": one for each step, and
by path "start", "end": a weight, "gradients": one for each step, "exp_avg", "exp_avg_sq": the moments at the end}.
Only the kernel is decayed. The gradients' sizes go from 1e-6, where epsilon shows, to 1e3.
"""

import json
import pathlib
import sys

import torch

SHAPES = {"layer/kernel": [3, 4], "layer/bias": [4], "layer/LayerNorm/gamma": [4]}
NUMBERS = {"beta_1": 0.85, "beta_2": 0.98, "epsilon": 1e-5, "weight_decay_rate": 0.1}
STEPS = 10


def main(path: str):
    generator = torch.Generator().manual_seed(0)
    start = {name: 0.1 * torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    sizes = 10.0 ** torch.arange(-6, 4)
    gradients = {name: [s * torch.randn(start[name].shape, generator=generator) for s in sizes] for name in SHAPES}
    rates = [1e-2 * (STEPS - step) / STEPS for step in range(STEPS)]
    weights = {name: torch.nn.Parameter(value.clone()) for name, value in start.items()}
    decays = {name: NUMBERS["weight_decay_rate"] * (name == "layer/kernel") for name in SHAPES}
    groups = [{"params": [weight], "weight_decay": decays[name]} for name, weight in weights.items()]
    optimizer = torch.optim.AdamW(groups, betas=(NUMBERS["beta_1"], NUMBERS["beta_2"]), eps=NUMBERS["epsilon"])
    for step, rate in enumerate(rates):
        for group in optimizer.param_groups:
            group["lr"] = rate
        for name, weight in weights.items():
            weight.grad = gradients[name][step].clone()
        optimizer.step()
    state, keys = optimizer.state, ("exp_avg", "exp_avg_sq")
    moments = {key: {name: state[weight][key].tolist() for name, weight in weights.items()} for key in keys}
    values = {
        "torch": torch.__version__,
        "numbers": NUMBERS,
        "rates": rates,
        "start": {name: value.tolist() for name, value in start.items()},
        "gradients": {name: [value.tolist() for value in each] for name, each in gradients.items()},
        "end": {name: weight.detach().tolist() for name, weight in weights.items()},
        **moments,
    }
    pathlib.Path(path).write_text(json.dumps(values) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
