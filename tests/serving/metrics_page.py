"""The samples of Prometheus's page, and how much one has grown."""

import functools

from prometheus_client.parser import text_string_to_metric_families

from bert_tf.serving.server import metrics


def samples():
    """{(name, labels): value} of the page now; the parser adds `_total` to the names of counters."""
    return _parsed(metrics.prometheus_text().decode())


@functools.lru_cache(1)
def _parsed(page):
    families = text_string_to_metric_families(page)
    found = [each for family in families for each in family.samples]
    return {(each.name.removesuffix("_total"), frozenset(each.labels.items())): each.value for each in found}


def grown(before, name, **labels):
    """By how much a sample has grown since `before`."""
    key = (name, frozenset(labels.items()))
    return samples()[key] - before.get(key, 0)
