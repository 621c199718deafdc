"""Load-test a model server: throughput and latency percentiles.

    bert-tf client load-test --model_name=films --input_file=texts.txt \\
        --concurrency=64
    bert-tf client load-test --model_name=films --input_file=texts.txt \\
        --rate=50,100,200 --seconds=30 --output_dir=load

Does not require TensorFlow.
"""

import asyncio
import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.cli.tls import tls_of
from bert_tf.serving.client.settings import ConnectionSettings, TlsSettings
from bert_tf.utils.files import write_text
from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class LoadTestSettings(ConnectionSettings, UserSettings):
    """Server to test, the requests to send, and the duration."""

    GROUP: ClassVar[str] = "Server and requests"

    input_file: str | None = option(
        None,
        "File of texts, one example per line, with tabs between the texts if the model takes several; may be gzipped "
        "(.gz).",
        required=True, group="Data", essential=True,
    )
    inputs: Sequence[str] = option(
        [],
        "Names of the texts of a line, in their order. Default: the standard order, if it is known.",
    )
    signature: str = option("", "Signature to request. Default: serving_default.")
    rest: bool = option(
        False,
        "Send requests over REST; --server is then the REST host and port.",
        excludes=tuple(flag.name for flag in flags_of(TlsSettings)),
    )
    concurrency: int | None = option(
        None,
        "Number of concurrent clients, each of which sends its next request when it receives a response. Default: 8.",
        low=1, excludes=("rate",), aliases=("callers",),
    )
    rate: Sequence[str] = option(
        [],
        "Requests per second on average, at random times, independent of responses; several request rates are "
        "tested in turn.",
    )
    seconds: float = option(10.0, "Seconds that each measurement lasts.", low=0.1)
    warmup_seconds: float = option(
        2.0, "Seconds of requests before anything is measured.", low=0, aliases=("warm_up_seconds",)
    )
    batch_size: int = option(1, "Number of examples per request.", low=1)
    seed: int = option(0, "Random seed for the order of the examples and for the times of --rate.", low=0)
    output_dir: str | None = option(
        None,
        "Directory for load_test.json and load_test.html. Default: the results are only printed.",
        group="Output", essential=True,
    )


SETTINGS = LoadTestSettings
FLAGS = flags_of(SETTINGS)
_CONCURRENCY = 8


def main(settings: LoadTestSettings):
    """Prints what each run found, and writes it where that is wanted."""
    from bert_tf.serving.client import load_report

    rates = _read_rates(settings)
    runs = asyncio.run(_ask(settings, rates, _read_batches(settings)))
    for name, samples in runs.items():
        summary = load_report.summarize(samples, settings.batch_size)
        print("\n".join(load_report.report_lines(name, summary)), flush=True)
    if settings.output_dir:
        os.makedirs(settings.output_dir, exist_ok=True)
        given = {name: value for name, value in settings.given_values().items() if not name.startswith("tls")}
        flags = {name: ",".join(value) if isinstance(value, list) else value for name, value in given.items()}
        for kind, write in (("json", load_report.load_test_json), ("html", load_report.to_page)):
            write_text(os.path.join(settings.output_dir, f"load_test.{kind}"), write(flags, runs, settings.batch_size))


async def _ask(settings, rates, batches):
    """Returns {name of the run: samples}."""
    from bert_tf.serving.client import load_calls, load_generation
    from bert_tf.serving.client.requests import ModelTarget

    target = ModelTarget(settings.model_name)
    if settings.rest:
        connect, bodies = load_calls.over_rest, load_calls.rest_bodies(batches, settings.signature)
    else:
        connect = functools.partial(load_calls.over_grpc, tls=tls_of(settings))
        bodies = load_calls.grpc_bodies(target, batches, settings.signature)
    clients, runs = settings.concurrency or _CONCURRENCY, {}
    async with connect(settings.server, target, bodies, settings.timeout) as send:
        await load_generation.ask_by_callers(send, clients, settings.warmup_seconds)
        for rate in rates:
            samples = await load_generation.ask_at_rate(send, rate, settings.seconds, settings.seed)
            runs[f"{rate:g} requests a second"] = samples
        if not rates:
            plural = "s" if clients > 1 else ""
            runs[f"{clients} client{plural}"] = await load_generation.ask_by_callers(send, clients, settings.seconds)
    answered = {name: samples for name, samples in runs.items() if samples}
    if not answered:
        raise ValueError(f"No request was answered within `seconds={settings.seconds:g}`. Increase it.")
    if none := runs.keys() - answered.keys():
        logging.warning("No request at %s was answered within --seconds=%g.", ", ".join(none), settings.seconds)
    return answered


def _read_rates(settings):
    try:
        rates = [float(rate) for rate in settings.rate]
    except ValueError:
        rates = [0.0]
    if not all(0 < rate < float("inf") for rate in rates):
        raise ValueError(
            f"--rate must be positive numbers separated by commas, such as 50,100; got {','.join(settings.rate)}."
        )
    return rates


def _read_batches(settings):
    """Returns what is asked, in the order in which it is: {input: texts} of each request."""
    import numpy as np

    from bert_tf.serving.client.items import read_text_columns, to_inputs
    from bert_tf.serving.client.requests import LISTS

    names = _input_names(settings, _asked_names(settings))
    items = read_text_columns(settings.input_file, names, names in LISTS)
    order = np.random.default_rng(settings.seed).permutation(max(len(items), settings.batch_size)) % len(items)
    size = settings.batch_size
    chosen = (order[i : i + size] for i in range(0, len(order) - size + 1, size))
    return [to_inputs([items[i] for i in chunk], names) for chunk in chosen]


def _input_names(settings, names):
    """Returns the order in which the texts of a line come: --inputs, or that of people for the model's `names`."""
    from bert_tf.serving.client.requests import check_order

    if not settings.inputs:
        check_order(names)
        return names
    if sorted(settings.inputs) != sorted(names):
        raise ValueError(
            f"--inputs must be the inputs of the model, {', '.join(names)}; got {','.join(settings.inputs)}."
        )
    return tuple(settings.inputs)


def _asked_names(settings):
    from bert_tf.serving.client.client import Client
    from bert_tf.serving.client.load_calls import inputs_over_rest

    if settings.rest:
        return inputs_over_rest(settings.server, settings.model_name, settings.signature, settings.timeout)
    with Client(settings.server, settings.model_name, settings.timeout, tls=tls_of(settings)) as client:
        return client.text_inputs(settings.signature)
