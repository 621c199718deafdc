"""The losses of ideas for fine-tuning on small data, and their gradients: what fine_tuning_ideas.py compares.

Each takes (step, batch, normalizers, dropout seed) and returns the loss and its gradients. The step is that of a
classifier or of a regression by an encoder of BERT's own embeddings.
"""

from collections.abc import Callable

import tensorflow as tf

from bert_tf.models.training_ops import seed_scope
from bert_tf.tasks.losses import sum_losses

NOISE_STEPS, NOISE_STEP, NOISE_START = 2, 0.1, 0.1  # norms of a text's noise, all tokens together
HEAD_SAMPLES = 5


def differentiate(step, loss_of: Callable, *more):
    """Returns loss_of() and its gradients, dense: of the model's trainable variables, then of the tensors `more`."""
    watched = [*(v.value for v in step.model.trainable_variables), *more]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(watched)
        loss = loss_of()
    return loss, [tf.convert_to_tensor(g) for g in tape.gradient(loss, watched)]


def pool(step, batch, seed, noise=None):
    """Returns pooled outputs [B, H] with the dropout masks of `seed`; `noise` [B, S, E] is added to the words."""
    encoder = step.model.get_layer("bert")
    features = {name: batch[name] for name in step.task.features}
    with seed_scope(seed):
        vectors = None if noise is None else embed(encoder.embeddings, features, noise)
        return encoder(features, training=True, input_vectors=vectors)["pooled_output"]


def embed(embeddings, features, noise):
    """Computes what `Embeddings` does, with `noise` added to the word embeddings before the sum is normalized."""
    ids, segments = features["input_ids"], features["segment_ids"]
    x = tf.gather(embeddings.word_embeddings, ids) + noise + embeddings.position_embeddings[: tf.shape(ids)[1]]
    table = tf.convert_to_tensor(embeddings.token_type_embeddings)
    x += tf.einsum("bst,th->bsh", tf.one_hot(segments, embeddings.type_vocab_size), table)
    return embeddings.dropout(embeddings.norm(x), training=True)


def classify(step, pooled, seed):
    """Returns the head's logits, float32 [B, L], with the dropout mask of `seed`."""
    with seed_scope(seed):
        return step.model.get_layer("classifier")(pooled, training=True)


def logits_of(step, batch, seed, noise=None):
    """Returns the logits of a batch, all dropout masks by `seed`; `noise` as in `pool`."""
    return classify(step, pool(step, batch, seed, noise), seed)


def standard(step, batch, normalizers, seed):
    """The task's own loss."""
    return differentiate(step, lambda: step.task.loss(logits_of(step, batch, seed), batch, normalizers))


def r_drop(step, batch, normalizers, seed):
    """Two passes with different dropout masks, and their symmetric divergence (Liang et al. 2021)."""
    twice = {name: tf.concat([values, values], 0) for name, values in batch.items()}  # each half has its own masks

    def loss():
        a, b = tf.split(logits_of(step, twice, seed), 2)
        own = (step.task.loss(a, batch, normalizers) + step.task.loss(b, batch, normalizers)) / 2
        return own + divergence(step, a, b, batch, normalizers)

    return differentiate(step, loss)


def divergence(step, a, b, batch, normalizers):
    """Returns the mean symmetric divergence of two outputs; for scores, their squared difference."""
    distance = step.task.problem.distillation_losses
    return sum_losses((distance(a, b, 1.0) + distance(b, a, 1.0)) / 2, batch) / normalizers["examples"]


def multi_sample(step, batch, normalizers, seed):
    """Mean loss over several dropout masks of the head (Inoue 2019)."""

    def loss():
        pooled = pool(step, batch, seed)
        seeds = [seed + tf.constant([7919 * sample, 0]) for sample in range(HEAD_SAMPLES)]
        losses = [step.task.loss(classify(step, pooled, each), batch, normalizers) for each in seeds]
        return tf.add_n(losses) / HEAD_SAMPLES

    return differentiate(step, loss)


def free_lb(step, batch, normalizers, seed):
    """Mean loss over steps of adversarial noise on the word embeddings (Zhu et al. 2020), with the same masks."""
    noise, total, sums = first_noise(step, batch, seed), 0.0, None
    for _ in range(NOISE_STEPS):
        at = tf.stop_gradient(noise)

        def loss(at=at):
            return step.task.loss(logits_of(step, batch, seed, at), batch, normalizers)

        found, (*gradients, uphill) = differentiate(step, loss, at)
        noise = ascend(at, uphill)
        total += found / NOISE_STEPS
        gradients = [g / NOISE_STEPS for g in gradients]
        sums = [a + b for a, b in zip(sums, gradients, strict=True)] if sums else gradients
    return total, sums


def smart(step, batch, normalizers, seed):
    """The loss, and its output's divergence from that under adversarial noise (Jiang et al. 2020, without momentum).

    The noise is of FreeLB's size, since bfloat16 can't represent the paper's 1e-5.
    """
    noise = first_noise(step, batch, seed)
    clean = logits_of(step, batch, seed)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(noise)
        other = logits_of(step, batch, seed, noise)
        distance = divergence(step, other, clean, batch, normalizers)
    noise = tf.stop_gradient(ascend(noise, tape.gradient(distance, noise)))

    def loss():
        own, other = (logits_of(step, batch, seed, at) for at in (None, noise))
        return step.task.loss(own, batch, normalizers) + divergence(step, own, other, batch, normalizers)

    return differentiate(step, loss)


def first_noise(step, batch, seed):
    """Returns random noise for the word embeddings, float32 [B, S, E], zero on padding."""
    mask = tf.cast(batch["input_mask"], tf.float32)[:, :, tf.newaxis]
    width = step.task.config.hidden_size
    shape = tf.concat([tf.shape(batch["input_ids"]), [width]], 0)
    size = tf.sqrt(tf.reduce_sum(mask, 1, keepdims=True) * width)
    return tf.random.stateless_uniform(shape, seed, -1.0, 1.0) * mask * NOISE_START / size


def ascend(noise, uphill):
    """Returns the noise after a step of norm NOISE_STEP along its gradient."""
    length = tf.sqrt(tf.reduce_sum(uphill**2, [1, 2], keepdims=True))
    return noise + NOISE_STEP * tf.math.divide_no_nan(uphill, length)
