"""Will it fit? The memory of one training step, by counting the tensors that it keeps."""

import dataclasses

from bert_tf.models.config import EncoderConfig
from bert_tf.training.out_of_memory import micro_batches

FLOAT32 = 4  # bytes
_MB = 2**20
_SOFTENED = 3  # of each matrix that is compared: the softmax of either side, and a gradient
_RUNTIME = 900 * _MB  # TensorFlow on a CPU: a fresh process has 640 MB, and graph, threads and scratch come to it


@dataclasses.dataclass(frozen=True)
class TeacherShape:
    """A frozen encoder that is asked in the step.

    Attributes:
        config: of the encoder.
        parameters: how many numbers it has.
        matrices: how many matrices of S by S the loss compares in a row: of attention, or of relations among tokens.
    """

    config: EncoderConfig
    parameters: int
    matrices: int = 0


@dataclasses.dataclass(frozen=True)
class StepShape:
    """A training step, as far as it decides how much memory is needed.

    Attributes:
        config: of the encoder.
        parameters: how many numbers the model has: `model.count_params()`.
        batch_size: rows of the global batch.
        max_seq_length: of every row, S.
        max_predictions: of every row, M; left to right S - 1; 0: the loss is not over the vocabulary.
        replicas, accumulation: what the batch is cut by.
        precision: "float32", "mixed_bfloat16" or "mixed_float16".
        rematerialize: as in `Encoder`.
        generator: of a second encoder that is trained in the same step, on the same rows, and whose alone the loss over
            the vocabulary is; None: there is none.
        averages_weights: a mean of the weights is kept beside them.
        teacher: a second encoder that is asked on the same rows and not trained; None: there is none.
        trainable: how many of the numbers training moves; None: all.
        rows_per_example: rows that an example has, such as one for each choice.
    """

    config: EncoderConfig
    parameters: int
    batch_size: int
    max_seq_length: int
    max_predictions: int = 0
    replicas: int = 1
    accumulation: int = 1
    precision: str = "float32"
    rematerialize: bool = False
    generator: EncoderConfig | None = None
    averages_weights: bool = False
    teacher: TeacherShape | None = None
    trainable: int | None = None
    rows_per_example: int = 1

    @property
    def micro_batch(self) -> int:
        """Examples that a replica computes with at once, of `rows_per_example` rows each."""
        return self.batch_size // (self.replicas * self.accumulation)

    def with_micro_batch(self, rows: int) -> "StepShape":
        """Returns the step in which a replica computes with so many rows at once."""
        return dataclasses.replace(self, accumulation=self.batch_size // (self.replicas * rows))


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Bytes on one device at the moment of a step that needs the most.

    Attributes:
        weights: in float32, their mean, the teacher's, and where the precision is mixed the copies that the products
            take.
        optimizer: the two float32 slots of AdamW and LAMB.
        gradients: in float32, those being added up too.
        activations: what the forward pass keeps for the backward pass, and what the backward pass needs beside it.
        runtime: what TensorFlow itself takes.
    """

    weights: int
    optimizer: int
    gradients: int
    activations: int
    runtime: int

    @property
    def peak(self) -> int:
        return sum(dataclasses.astuple(self))


def encoder_parameters(config: EncoderConfig) -> int:
    """Returns how many numbers the variables of an encoder have, without building it."""
    c, H, E = config, config.hidden_size, config.embedding_width
    tables = c.vocab_size + c.max_position_embeddings + c.type_vocab_size + c.task_type_vocab_size
    attention = 4 * _linear(H, H) + 2 * H
    feed_forward = _linear(H, c.intermediate_size) + _linear(c.intermediate_size, H) + 2 * H
    projection = _linear(E, H) if c.has_embedding_map else 0
    pooler = _linear(H, H) if c.has_pooler else 0
    final_norm = 2 * H if c.norm_first else 0
    return (tables + 2) * E + projection + c.num_blocks * (attention + feed_forward) + final_norm + pooler


def _linear(inputs, outputs):
    return (inputs + 1) * outputs


def estimate(step: StepShape) -> Estimate:
    """Returns the memory of one step, counted from `modeling/`; on a CPU real peaks were 0.87 to 1.02 times it.

    It is for steps without XLA, which keeps fewer tensors.
    """
    c, mixed = step.config, step.precision != "float32"
    numbers = step.parameters * FLOAT32
    of_teacher = step.teacher.parameters * FLOAT32 if step.teacher else 0
    moved = numbers if step.trainable is None else step.trainable * FLOAT32
    table = c.vocab_size * c.hidden_size * FLOAT32  # its gradient: one of the look-up, one of the decoder, their sum
    of_row = sum(map(_activations, _networks(step))) + _comparison(step)
    return Estimate(
        weights=numbers * (1 + step.averages_weights) + of_teacher + mixed * (numbers + of_teacher) // 2,
        optimizer=2 * moved,
        gradients=moved * (2 if step.accumulation > 1 else 1) + table * (2 if step.max_predictions else 1),
        activations=step.micro_batch * step.rows_per_example * of_row,
        runtime=_RUNTIME,
    )


def _networks(step):
    """Returns the step of each network by itself: what one keeps, it keeps while the other computes."""
    if not step.generator:
        return [step]
    alone = dataclasses.replace(step, generator=None)
    return [dataclasses.replace(alone, max_predictions=0), dataclasses.replace(alone, config=step.generator)]


def _comparison(step):
    """Returns bytes a row of the teacher, of which nothing is kept but what it shows, and of what is compared with it.

    While a block of it is computed, that has scores, inner states, and some of the width of the hidden ones.
    """
    if not step.teacher:
        return 0
    c, S, half = step.teacher.config, step.max_seq_length, 2 if step.precision != "float32" else FLOAT32
    block = (2 * c.num_attention_heads * S * S + 2 * S * c.intermediate_size + 6 * S * c.hidden_size) * half
    matrices = _SOFTENED * step.teacher.matrices * S * S * FLOAT32
    return block + matrices + 2 * step.max_predictions * c.vocab_size * FLOAT32


def _activations(step):
    """Returns bytes a row.

    The most is needed either where the gradient of the logits is computed or where that of the last block is.
    """
    c, S, half = step.config, step.max_seq_length, 2 if step.precision != "float32" else FLOAT32
    hidden, inner, scores = S * c.hidden_size, S * c.intermediate_size, c.num_attention_heads * S * S
    storage = _kept_by_block(c, hidden, inner, scores, half)
    # Of a block's backward pass: the gradients of its tensors; GELU and LayerNorm compute theirs in float32.
    backward = 2 * scores * half + (3 * inner + 4 * hidden) * FLOAT32
    embeddings = 4 * hidden * FLOAT32
    logits = 4 * step.max_predictions * c.vocab_size * FLOAT32  # logits, softmax, their gradient and its share
    if step.rematerialize:
        return embeddings + c.num_hidden_layers * hidden * half + max(logits, storage + backward)
    return embeddings + c.num_hidden_layers * storage + max(logits, backward)


def _kept_by_block(c, hidden, inner, scores, half):
    """Returns the bytes that a Transformer block keeps of a row; `half` are those of a number that may be halved.

    scores      softmax's result; where there is dropout its mask and their product
    hidden      float32: input, centred and normalized, of both LayerNorms. Others: query, key, value, the mixed values
                and the same with heads joined, the two outputs; where there is dropout two masks
    inner       before and after the activation
    """
    attention = (3 if c.attention_probs_dropout_prob else 1) * scores * half
    dropout = 2 if c.hidden_dropout_prob else 0
    return attention + 6 * hidden * FLOAT32 + ((6 + dropout) * hidden + 2 * inner) * half


def largest_micro_batch(step: StepShape, available: int) -> int:
    """Returns the most rows that a replica's share can be cut into evenly and that fit; 0 where not even one does."""
    sizes = micro_batches(step.batch_size // step.replicas)
    return next((rows for rows in sizes if estimate(step.with_micro_batch(rows)).peak <= available), 0)
