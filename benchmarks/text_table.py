"""The tables of text_speed.py: milliseconds of an answer, CPU time, ratios to the fastest peer, memory and start.

    python benchmarks/text_table.py out/results.json
"""

import json
import pathlib
import statistics
import sys

from inference_table import least

CALLERS = "REST 32 callers"


def show(path):
    """Prints the tables of a file that `inference_table.write` made."""
    facts = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    print(f"{facts['processor']}; load {facts['load'][0]:.1f}")
    times = {name: {case: least(each) for case, each in cases.items()} for name, cases in facts["milliseconds"].items()}
    medians = {name: {case: each[0] for case, each in cases.items()} for name, cases in times.items()}
    cases = list(dict.fromkeys(case for each in medians.values() for case in each))

    def milliseconds(name, case):
        time, threads = times[name][case]
        return f"{1e3 / time:.0f}/s ({threads} t)" if case == CALLERS else f"{time:.2f} ({threads} t)"

    def cpu(name, case):  # of the number of threads that was the fastest
        return f"{statistics.mean(facts['cpu_milliseconds'][name][case][times[name][case][1]]):.1f}"

    def ratio(name, case):
        return f"{_fastest_peer(medians, name, case) / medians[name][case]:.2f}"

    ours = [name for name in medians if name.startswith("bert_tf")]
    compared = [name for name in ours if any(_fastest_peer(medians, name, case) for case in medians[name])]
    _table("milliseconds, or answers a second (t: threads, of which the best number is shown)", cases, medians,
           milliseconds)  # fmt: skip
    _table("CPU milliseconds of an answer", cases, medians, cpu)
    _table("times as fast as the fastest peer of its dtype", cases, {name: medians[name] for name in compared}, ratio)
    _show_processes(facts["processes"])


def _fastest_peer(medians, name, case):
    """Returns the least milliseconds of a peer of the same dtype; 0 if there is none."""
    dtype = name.split()[1]
    peers = [each for each in medians if not each.startswith("bert_tf") and each.split()[1] == dtype]
    return min((medians[peer][case] for peer in peers if case in medians[peer]), default=0)


def _table(title, cases, medians, cell):
    print(f"\n| {title} | {' | '.join(cases)} |\n|---{'|---' * len(cases)}|")
    for name, there in medians.items():
        print(f"| {name} | {' | '.join(cell(name, case) if case in there else '' for case in cases)} |")


def _show_processes(processes):
    columns = {
        "first answer, s": "first_seconds",
        "CPU s until then": "first_cpu_seconds",
        "RSS, MiB": "rss_mib",
        "private, MiB": "private_mib",
    }
    print(f"\n| process | threads | {' | '.join(columns)} |\n|---|---{'|---' * len(columns)}|")
    for name, each in processes.items():
        for threads, found in each.items():
            cells = (f"{found[key]:.{1 if 'seconds' in key else 0}f}" for key in columns.values())
            print(f"| {name} | {threads} | {' | '.join(cells)} |")


if __name__ == "__main__":
    show(sys.argv[1])
