"""The tables of inference_speed.py: milliseconds, ratios to the fastest peer, shares of the machine's best product.

    python benchmarks/inference_table.py out/results.json
"""

import json
import pathlib
import statistics
import sys

from inference_workers import SIDE
from peers import machine

_PRODUCT = "product"


def write(path, times, **facts):
    """Writes every time, and on what machine it was taken.

    Args:
        path: of the file.
        times: {((name, threads), case): seconds, one for each turn}; names are "torch float32", "bert_tf int8 cpu" and
            the like.
        **facts: what else is known, such as operations, {case: floating-point operations}.
    """
    found = {}
    for ((name, threads), case), each in times.items():
        found.setdefault(name, {}).setdefault(case, {})[threads] = [1e3 * float(seconds) for seconds in each]
    facts = machine() | facts | {"milliseconds": found}
    pathlib.Path(path).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def show(path):
    """Prints the tables of a file that `write` made."""
    facts = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    best_of = {name: {case: least(each) for case, each in cases.items()}
               for name, cases in facts["milliseconds"].items()}  # fmt: skip
    medians = {name: {case: time for case, (time, _) in cases.items()} for name, cases in best_of.items()}
    several = any(len(each) > 1 for cases in facts["milliseconds"].values() for each in cases.values())
    best = {_dtype(name): 2 * SIDE**3 / medians.pop(name)[_PRODUCT] for name in list(medians) if _PRODUCT in name}
    print(f"{facts['processor']}; load {facts['load'][0]:.1f}")
    print("Best product: " + ", ".join(f"{dtype} {speed / 1e6:.0f} GFLOP/s" for dtype, speed in best.items()))

    def milliseconds(name, case):
        time = medians[name][case]
        share = 100 * facts["operations"][case] / time / best.get(_dtype(name), float("inf"))
        notes = [f"{share:.0f}%"] * bool(share) + [f"{best_of[name][case][1]} t"] * several
        return f"{time:.1f}" + (f" ({', '.join(notes)})" if notes else "")

    of = "milliseconds (share of the best product" + "; t: threads, of which the best number is shown" * several + ")"
    _table(of, medians, medians, milliseconds)

    def ratio(name, case):
        peers = [medians[peer][case] for peer in _peers(medians, name)]
        return f"{min(peers) / medians[name][case]:.2f}"

    ours = [name for name in medians if _is_ours(name) and _peers(medians, name)]
    _table("times as fast as the fastest peer of its dtype", medians, ours, ratio)


def ratios(facts):
    """Returns {case: (ratio of medians, lowest, highest of single turns)}, ours to the fastest peer of one dtype."""
    found = {}
    for name, cases in facts["milliseconds"].items():
        if _PRODUCT in name:
            continue
        for case, times in cases.items():
            each = times[least(times)[1]]
            whose = found.setdefault(case, {}).setdefault(_is_ours(name), [])
            whose.append((statistics.median(each), each))
    result = {}
    for case, whose in found.items():
        if len(whose) == 2:
            (ours, our_turns), (theirs, their_turns) = (min(whose[mine]) for mine in (True, False))
            turns = [there / here for here, there in zip(our_turns, their_turns, strict=True)]
            result[case] = (theirs / ours, min(turns), max(turns))
    return result


def least(times):
    """Returns the least median, and of how many threads it is; `times` is {threads: milliseconds}."""
    return min((statistics.median(each), threads) for threads, each in times.items())


def _table(title, medians, names, cell):
    cases = list(next(iter(medians.values())))
    print(f"\n| {title} | {' | '.join(cases)} |\n|---{'|---' * len(cases)}|")
    for name in names:
        print(f"| {name} | {' | '.join(cell(name, case) for case in cases)} |")


def _peers(names, name):
    return [peer for peer in names if not _is_ours(peer) and _dtype(peer) == _dtype(name)]


def _is_ours(name):
    return name.startswith("bert_tf")


def _dtype(name):
    return name.split()[1]


if __name__ == "__main__":
    show(sys.argv[1])
