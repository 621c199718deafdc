"""Estimates the memory of one training step by counting the tensors that it stores."""

import dataclasses

from bert_tf.models.config import EncoderConfig
from bert_tf.models.local_attention import seen_by_local
from bert_tf.training.micro_batches import micro_batches

FLOAT32 = 4  # bytes
_MB = 2**20
_SOFTENED = 3  # per compared matrix: the softmax of both sides, and a gradient
_RUNTIME = 900 * _MB  # TensorFlow on a CPU: a fresh process has 640 MB, plus graph, threads and scratch memory


@dataclasses.dataclass(frozen=True)
class TeacherShape:
    """A frozen teacher encoder that runs in the step.

    Attributes:
        config: configuration of the encoder.
        parameters: number of parameters.
        matrices: number of S by S matrices that the loss compares per sequence: of attention, or of token relations.
    """

    config: EncoderConfig
    parameters: int
    matrices: int = 0


@dataclasses.dataclass(frozen=True)
class StepShape:
    """The properties of a training step that determine its memory.

    Attributes:
        config: configuration of the encoder.
        parameters: number of parameters: `model.count_params()`.
        batch_size: examples in the global batch.
        max_seq_length: length of every sequence in tokens, S.
        max_predictions: number of predictions per sequence, M; S - 1 for a causal LM; if 0, the loss is not over the
            vocabulary.
        replicas, accumulation: how many ways the batch is split.
        precision: "float32", "mixed_bfloat16" or "mixed_float16".
        gradient_checkpointing: as in `Encoder`.
        generator: configuration of a second encoder that is trained in the same step on the same sequences, and that
            alone has the loss over the vocabulary; None for no second encoder.
        averages_weights: a running mean of the weights is stored as well.
        teacher: a second encoder that runs on the same sequences without training; None for no teacher.
        trainable: number of trainable parameters; None for all.
        rows_per_example: sequences per example, such as one per choice.
    """

    config: EncoderConfig
    parameters: int
    batch_size: int
    max_seq_length: int
    max_predictions: int = 0
    replicas: int = 1
    accumulation: int = 1
    precision: str = "float32"
    gradient_checkpointing: bool = False
    generator: EncoderConfig | None = None
    averages_weights: bool = False
    teacher: TeacherShape | None = None
    trainable: int | None = None
    rows_per_example: int = 1

    @property
    def micro_batch(self) -> int:
        """Number of examples that a replica processes at once, with `rows_per_example` sequences each."""
        return self.batch_size // (self.replicas * self.accumulation)

    def with_micro_batch(self, rows: int) -> "StepShape":
        """Returns the step with micro-batches of this many examples."""
        return dataclasses.replace(self, accumulation=self.batch_size // (self.replicas * rows))


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Peak memory of a step on one device, in bytes.

    Attributes:
        weights: in float32, their mean, the teacher's, and with mixed precision the copies for the matrix products.
        optimizer: the two float32 slots of AdamW and LAMB.
        gradients: in float32, including the accumulated ones.
        activations: stored by the forward pass for the backward pass, and those of the backward pass.
        runtime: TensorFlow's own memory.
    """

    weights: int
    optimizer: int
    gradients: int
    activations: int
    runtime: int

    @property
    def peak(self) -> int:
        return sum(dataclasses.astuple(self))


def _scores(c, S):
    """Returns the number of attention scores of a layer per sequence, the mean over the layers."""
    layers = [c.is_local(n) for n in range(c.num_hidden_layers)]
    local = S * seen_by_local(S, c.local_attention) if any(layers) else 0
    return c.num_attention_heads * (layers.count(True) * local + layers.count(False) * S * S) // max(len(layers), 1)


def estimate(step: StepShape) -> Estimate:
    """Estimates the memory of one step from `models/`; on a CPU, measured peaks were 0.87 to 1.02 times as much.

    It applies to steps without XLA, which stores fewer tensors.
    """
    c, mixed = step.config, step.precision != "float32"
    numbers = step.parameters * FLOAT32
    of_teacher = step.teacher.parameters * FLOAT32 if step.teacher else 0
    moved = numbers if step.trainable is None else step.trainable * FLOAT32
    table = c.vocab_size * c.hidden_size * FLOAT32  # its gradient: of the lookup, of the decoder, and their sum
    of_row = sum(map(_activations, _networks(step))) + _comparison(step)
    return Estimate(
        weights=numbers * (1 + step.averages_weights) + of_teacher + mixed * (numbers + of_teacher) // 2,
        optimizer=2 * moved,
        gradients=moved * (2 if step.accumulation > 1 else 1) + table * (2 if step.max_predictions else 1),
        activations=step.micro_batch * step.rows_per_example * of_row,
        runtime=_RUNTIME,
    )


def _networks(step):
    """Returns the step of each network by itself: the tensors of one stay in memory while the other computes."""
    if not step.generator:
        return [step]
    alone = dataclasses.replace(step, generator=None)
    return [dataclasses.replace(alone, max_predictions=0), dataclasses.replace(alone, config=step.generator)]


def _comparison(step):
    """Returns bytes per sequence for the teacher, of which only its outputs are stored, and for their comparison.

    While one of its layers is computed, it has scores, inner states, and some tensors of hidden width.
    """
    if not step.teacher:
        return 0
    c, S, half = step.teacher.config, step.max_seq_length, 2 if step.precision != "float32" else FLOAT32
    block = (2 * _scores(c, S) + 2 * S * c.intermediate_size + 6 * S * c.hidden_size) * half
    matrices = _SOFTENED * step.teacher.matrices * S * S * FLOAT32
    return block + matrices + 2 * step.max_predictions * c.vocab_size * FLOAT32


def _activations(step):
    """Returns bytes per sequence.

    The peak is at the gradient either of the logits or of the last layer.
    """
    c, S, half = step.config, step.max_seq_length, 2 if step.precision != "float32" else FLOAT32
    hidden, inner, scores = S * c.hidden_size, S * c.intermediate_size * (1 + c.gated_mlp), _scores(c, S)
    storage = _kept_by_block(c, hidden, inner, scores, half)
    # The backward pass of a layer: the gradients of its tensors; GELU and LayerNorm compute theirs in float32.
    # Scores of relative positions are computed for 2 S distances.
    backward = 2 * (1 + 2 * len(c.pos_att_type)) * scores * half + (3 * inner + 4 * hidden) * FLOAT32
    embeddings = 4 * hidden * FLOAT32 + (c.conv_kernel_size or 0) * hidden * half
    logits = 4 * step.max_predictions * c.vocab_size * FLOAT32  # logits, softmax, their gradient and its share
    layers = c.num_hidden_layers + (2 if c.enhanced_mask_decoder and step.max_predictions else 0)
    if step.gradient_checkpointing:
        return embeddings + layers * hidden * half + max(logits, storage + backward)
    return embeddings + layers * storage + max(logits, backward)


def _kept_by_block(c, hidden, inner, scores, half):
    """Returns the bytes that a Transformer layer stores per sequence; `half`: bytes of a number in mixed precision.

    scores      the softmax's result; with dropout, its mask and their product
    hidden      float32: input, centered and normalized, of both LayerNorms. Others: query, key, value, the mixed values
                and the same with heads joined, the two outputs; with dropout, two masks
    inner       before and after the activation
    """
    attention = (3 if c.attention_probs_dropout_prob else 1) * scores * half
    dropout = 2 if c.hidden_dropout_prob else 0
    return attention + 6 * hidden * FLOAT32 + ((6 + dropout) * hidden + 2 * inner) * half


def largest_micro_batch(step: StepShape, available: int) -> int:
    """Returns the largest micro-batch that divides a replica's share and fits; 0 if not even one sequence fits."""
    sizes = micro_batches(step.batch_size // step.replicas)
    return next((rows for rows in sizes if estimate(step.with_micro_batch(rows)).peak <= available), 0)
