"""Order of examples: which of them each batch of a training or an evaluation has."""

import numpy as np

# A pool of at most this many batches is sorted by length: enough for batches of nearly equal lengths. An epoch has at
# least that many pools, or pools of the minimum size: with larger ones, small data sets were learned later and worse.
MOST_POOL_BATCHES, LEAST_POOL_BATCHES, POOLS_OF_EPOCH = 50, 4, 40


def usual_pool(num_examples: int, batch_size: int) -> int:
    """Returns the default number of batches sorted together: 4 for a small data set, 50 for a large one."""
    share = num_examples // (batch_size * POOLS_OF_EPOCH)
    return min(MOST_POOL_BATCHES, max(LEAST_POOL_BATCHES, share))


def training_order(lengths, batch_size, num_steps, seed, by_length=True, pool_batches=None):
    """Determines the examples of each step: a pure function of its arguments, so that runs can be resumed.

    Examples are reshuffled each epoch, and epochs follow each other without a gap. With `by_length`, each pool of
    batches (an epoch if that is less) is sorted by length and split into batches, and these are shuffled.

    Args:
        lengths: lengths of the examples, int [n].
        batch_size: examples per step.
        num_steps: number of steps of the whole run.
        seed: random seed of the shuffling.
        by_length: whether to group examples of similar length; if False, batches are in plain random order.
        pool_batches: number of batches per pool, at least 1, which gives the same batches as without `by_length`. If
            None, `usual_pool` decides.

    Returns:
        int64 [num_steps, batch_size], indices of examples.
    """
    needed, n = num_steps * batch_size, len(lengths)
    epochs = [np.random.default_rng([seed, epoch]).permutation(n) for epoch in range(-(-needed // n))]
    order = np.concatenate(epochs)[:needed].reshape(num_steps, batch_size)
    if not by_length:
        return order
    pool_batches = pool_batches or usual_pool(n, batch_size)
    size = min(pool_batches, max(1, n // batch_size))  # at most an epoch, so that a batch has no duplicate examples
    pools = []
    for pool, start in enumerate(range(0, num_steps, size)):
        examples = order[start : start + size].reshape(-1)
        examples = examples[np.argsort(lengths[examples], kind="stable")].reshape(-1, batch_size)
        pools.append(np.random.default_rng([seed, pool, 1]).permutation(examples))
    return np.concatenate(pools)


def scoring_order(lengths, batch_size, by_length=True):
    """Determines the batches of an evaluation: each example once, with the last batch padded with -1.

    Returns:
        int64 [steps, batch_size], indices of examples or -1. With `by_length`, the longest come first, so that a run
        that does not fit into memory fails at once.
    """
    order = np.argsort(-lengths, kind="stable") if by_length else np.arange(len(lengths))
    missing = -len(order) % batch_size
    return np.concatenate([order, np.full(missing, -1)]).reshape(-1, batch_size)
