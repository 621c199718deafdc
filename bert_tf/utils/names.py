"""Allowed option values and special tokens that several packages share. Imports nothing."""

# What may be chosen on the command line, and in the settings of the packages that do it.
STRATEGIES = ("default", "mirrored", "multi_worker", "tpu")
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
USE_XLA = ("auto", "true", "false")
OPTIMIZERS = ("adamw", "lamb")
AUTO = "auto"  # a learning rate that a range test chooses; a precision, or XLA, that the hardware decides
SCHEDULES = ("linear", "polynomial", "cosine", "trapezoid")
START_EMBEDDINGS = ("random", "neighbors")
START_POSITIONS = ("random", "sinusoidal")
TRACKERS = ("wandb", "mlflow")
OBJECTIVES = ("masked_lm", "left_to_right", "electra", "albert", "roberta", "ernie", "distillation")
SENTENCE_OBJECTIVES = ("nsp", "sop", "none")
DISTILLATION_LOSSES = (
    "soft_targets", "masked_lm", "hidden", "attention", "query_relations", "key_relations", "value_relations",
)  # fmt: skip
MASKINGS = ("token", "whole_word", "span", "ngram", "phrase")
CLEANING_KINDS = (
    "html_entities", "control_characters", "special_spaces", "label_spaces", "null_labels", "empty_texts",
    "duplicates", "near_duplicates",
)  # fmt: skip
TEXT_FORMATS = ("sentences", "prose", "jsonl")
HAVE_SEVERAL_LABELS = {"single_label": False, "multi_label": True, "regression": False}
PROBLEMS = tuple(HAVE_SEVERAL_LABELS)  # of a classifier, also in its task.json
FORMATS = ("bert_tf", "huggingface", "keras_hub", "sentence_transformers", "tf1")
WORD_BOUNDARIES = ("whitespace", "punctuation", "characters")
LAYERS = (
    "embeddings", "second_to_last", "last", "weighted_sum_last_4", "concat_last_4", "weighted_sum_all",
)  # fmt: skip
POOLINGS = ("cls", "mean", "max", "mean_max", "mean_sqrt_len", "weighted_mean", "last_token")
SPLADE_POOLINGS, SPLADE_ACTIVATIONS = ("max", "sum"), ("relu", "log1p_relu")
EXPORT_DTYPES = ("float32", "bfloat16", "float16", "int8")
SAVED_MODELS_FOR = ("portable", "cpu", "gpu")  # which TensorFlow Serving and `bert-tf serve` load
EXPORTS_FOR = (*SAVED_MODELS_FOR, "litert", "onnx", "openvino")
ENGINES = ("auto", "litert", "saved_model")  # what answers the texts of an export that has both
PROTOCOLS = ("openai", "rerank", "tei", "kserve_v2", "sagemaker")  # of a REST port
EXPLANATIONS = ("attention", "attributions")
PREDICTION_ORDERS = ("file", "errors")
VECTOR_DTYPES = ("float32", "int8", "binary")  # of stored embeddings

TASK_FILE = "task.json"  # of a trained model and an export: the task, its options, and the texts of an example
# Beside a SavedModel, in assets.extra: requests and what the model answered when it was exported.
GOLDEN_REQUESTS = "golden_requests"
# The tokenizer, for what the graph does not answer.
TOKENIZER_FOLDER = "assets.extra/tokenizer"
# In a SavedModel's graph, the name of a collection: a text alone is computed by several threads side by side.
SIDE_BY_SIDE = "bert_tf/side_by_side"
# Another: the positions that the model has, and the most tokens that it reads of a text, 0 where it reads all of it.
# Rows of such a model are computed independently of each other.
NLI_TEMPLATE = "This example is {}."  # of a label in zero-shot classification
SEQUENCES = "bert_tf/sequences"
# Another: tensors with the counts of the texts that a signature reads, int64 in the order of `TokenCounts`. They
# are computed beside its outputs and are no outputs, so that clients do not see them.
TOKEN_COUNTS = "bert_tf/token_counts"

# The tokens of a BERT vocabulary that stand for no text.
PAD, UNKNOWN, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNKNOWN, CLS, SEP, MASK)
