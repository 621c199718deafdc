"""Flags that several commands share, by group."""

from bert_tf.utils import names
from bert_tf.utils.names import PREDICTION_ORDERS
from bert_tf.utils.settings import NO_EFFECT, Flag, with_attributes

# === Devices ===
# Flags of devices: on what a run computes.


DEVICES = (
    Flag(
        "distribution_strategy",
        "default",
        "One device; all GPUs of this machine; those of several machines, on "
        "each of which the same command runs; or a TPU. See docs/distributed.md.",
        choices=names.STRATEGIES,
    ),  # fmt: skip
    Flag(
        "worker_hosts",
        [],
        "With multi_worker: host:port of every worker, the same list everywhere; the first one "
        "writes. Default: what the environment variable TF_CONFIG says.",
        "list",
    ),  # fmt: skip
    Flag("task_index", None, "With --worker_hosts: which of them this is, from 0.", "integer", low=0),
)

# google-research/bert's, for Cloud TPUs.
GOOGLE_TPU = (
    Flag("use_tpu", False, "The same as --distribution_strategy=tpu.", "bool"),
    Flag("tpu_name", None, "The Cloud TPU, by name or as grpc://host:port; default: those of this machine."),
    Flag("tpu_zone", None, "Its zone; default: this machine's."),
    Flag("gcp_project", None, "Its project; default: this machine's."),
    Flag("master", None, "Its address, instead of --tpu_name."),
    Flag("num_tpu_cores", 8, f"{NO_EFFECT}.", "integer"),
    Flag("iterations_per_loop", 1000, f"{NO_EFFECT}.", "integer"),
)


# === Distillation ===
# Flags of distillation: which model teaches, and what is learned from it.


DISTILLATION_TEMPERATURE = Flag("distillation_temperature", 2.0, "What the teacher's and the student's logits are "
                                "divided by before they are compared.", "float", low=0)  # fmt: skip

TEACHER = (
    Flag(
        "teacher",
        None,
        "A model fine-tuned for the same task on the same labels, whose answers are learned beside the labels.",
    ),  # fmt: skip
    DISTILLATION_TEMPERATURE,
    Flag(
        "distillation_weight",
        0.5,
        "Share of the loss that compares with --teacher; the labels have the rest.",
        "float",
        low=0,
        high=1,
    ),  # fmt: skip
)


# === Training ===
# Flags of training: what is done, where it goes, and how a step is made.


# The optimizer's numbers; `training.optimizers.AdamConfig` has the same names.
_OPTIMIZER = (
    Flag("learning_rate", 5e-5, "The peak of Adam's rate.", "float", low=0),
    Flag("schedule", "linear", "How the rate falls behind the warm-up.", choices=names.SCHEDULES),
    Flag(
        "weight_decay_rate",
        0.01,
        "Share of each weight, times the rate, that a step takes away; not of LayerNorm and biases.",
        "float",
        low=0,
    ),  # fmt: skip
    Flag("adam_beta1", 0.9, "How much of the mean of the gradients stays from step to step.", "float", low=0, high=1),
    Flag("adam_beta2", 0.999, "The same of the mean of their squares.", "float", low=0, high=1),
    Flag("adam_epsilon", 1e-6, "Added to the root of that mean.", "float", low=0),
    Flag(
        "clip_norm",
        1.0,
        "Gradients whose norm over all weights is above this are scaled down to it; 0: none are.",
        "float",
        low=0,
    ),  # fmt: skip
    Flag(
        "bias_correction",
        False,
        "Correct both means for having begun at 0, as Adam does and BERT's Adam does not.",
        "bool",
    ),  # fmt: skip
)

SAVE = (
    Flag(
        "save_format",
        [],
        "Leave the trained model in these forms too, each in a folder of --output_dir called like "
        f"it: {', '.join(names.FORMATS)}.",
        "list",
        choices=names.FORMATS,
    ),  # fmt: skip
)

# Of any training.
TRAINING = (
    *DEVICES,
    Flag("output_dir", None, "Where checkpoints, scores and predictions go.", required=True),
    Flag(
        "overwrite_output_dir",
        False,
        "With --do_train: remove an earlier run there and start over. Without it, an interrupted run continues.",
        "bool",
    ),  # fmt: skip
    Flag("do_train", False, "Train.", "bool"),
    Flag("do_eval", False, "Score on held-out examples.", "bool"),
    Flag("train_batch_size", 32, "Examples per step, over all devices.", "integer", low=1),
    Flag("eval_batch_size", 8, "Examples at a time in --do_eval.", "integer", low=1),
    *_OPTIMIZER,
    Flag("save_checkpoints_steps", 1000, "Steps between two checkpoints.", "integer", low=1),
    Flag("keep_checkpoints", 5, "How many of the last checkpoints are kept.", "integer", low=1),
    Flag(
        "keep_optimizer",
        False,
        "Keep the optimizer's state in the run's result too; without it, the last checkpoint "
        "and the best one hold only the model once the run has ended.",
        "bool",
    ),  # fmt: skip
    Flag(
        "gradient_accumulation_steps",
        1,
        "Cut each batch into this many parts, to save memory; the result stays the same.",
        "integer",
        low=1,
    ),  # fmt: skip
    Flag("rematerialize", False, "Compute activations again in the backward pass, to save memory.", "bool"),
    Flag("precision", "float32", "What layers compute in; weights stay float32.", choices=names.PRECISIONS),
    Flag("use_xla", "auto", "Compile with XLA; auto: with a GPU or TPU only.", choices=names.USE_XLA),
    Flag("seed", 0, "For new weights, the order of the examples and dropout.", "integer", low=0),
    Flag("deterministic", False, "The same command gives the same weights, bit for bit; may be slower.", "bool"),
    Flag(
        "tracking",
        None,
        "Tell losses and scores to Weights & Biases or MLflow too; the package must be installed.",
        choices=names.TRACKERS,
    ),  # fmt: skip
    *SAVE,
)

# Of fine-tuning.
_RATE = "The peak of Adam's rate; auto: as a short range test finds before the first step."
RUN = (
    *with_attributes(TRAINING, "learning_rate", help=_RATE, words=(names.AUTO,)),
    Flag("do_predict", False, "Answer for examples without labels.", "bool"),
    Flag("predict_batch_size", 8, "Examples at a time in --do_predict.", "integer", low=1),
    Flag("num_train_epochs", 3.0, "Passes over the training examples.", "float", low=0),
    Flag("warmup_proportion", 0.1, "Share of the steps in which the rate rises.", "float", low=0, high=1),
    Flag("bucket_by_length", True, "Batch examples of similar lengths and pad to the longest only.", "bool"),
    Flag(
        "bucket_batches",
        None,
        "With --bucket_by_length: the examples of so many batches are sorted by length "
        "together. Fewer: batches are more random, and need more padding; 1: random. Unset: a fortieth of an epoch's, "
        "from 4 to 50.",
        "integer",
        low=1,
    ),  # fmt: skip
    Flag("pack_examples", False, "Train on rows that hold several short examples each, and little padding.", "bool"),
)


# === Model ===
# Flags of models: where they come from, and where an export goes.


MODEL = (
    Flag(
        "init_checkpoint",
        None,
        "Weights to start from: a Hugging Face, sentence-transformers or bert_tf directory, "
        "or a TF1 checkpoint's prefix (.../bert_model.ckpt).",
    ),  # fmt: skip
    Flag("bert_config_file", None, "The model's shape; default: the one beside --init_checkpoint."),
    Flag("vocab_file", None, "The vocabulary; default: the one beside --init_checkpoint."),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
    Flag("max_seq_length", 128, "Longest sequence in tokens, special tokens included.", "integer", low=3),
)

EXPORT_FORM = (
    Flag("export_dtype", "float32", "Of weights and computation in the export; int8 is that of the encoder's matrix "
         "products, for processors; float16 is for gpu; for litert, float16 and int8 are those of the weights.",
         choices=names.EXPORT_DTYPES),
    Flag("export_for", names.EXPORTS_FOR[0], "Where it will be served: cpu is faster there; in bfloat16, where it "
         "gains most, the weights become constants of the graph and load more slowly; gpu: requests are computed in "
         "few shapes, so that XLA can compile them; litert: a .tflite file for phones and small devices, in place of a "
         "SavedModel.", choices=names.EXPORTS_FOR),
    Flag("export_threads", 2, "With --export_for=cpu: how many threads compute each layer of the encoder, as many as "
         "the server has cores for one request.", "integer", low=1, high=64),
)  # fmt: skip

CALIBRATION_FILE = Flag(
    "calibration_file", None, "With --export_dtype=int8 and --export_for=cpu: texts that set the ranges of integers, "
    "which is faster than to find them anew in each request; one example in a line, a tab between its texts; 512 at "
    "most are read.",
)  # fmt: skip

EXPORT_EXPLANATIONS = Flag(
    "export_explanations", [], "Signatures by which the export explains itself, with a comma between them: attention, "
    "what each token of a text looks at; attributions, which tokens speak for an answer.", "list",
    choices=names.EXPLANATIONS,
)  # fmt: skip

EXPORT = (
    Flag("do_export", False, "Export the trained model for TensorFlow Serving.", "bool"),
    Flag(
        "export_dir",
        None,
        "The model's directory as a server knows it; the export becomes its next version; "
        "default: export in --output_dir, or litert there with --export_for=litert.",
    ),  # fmt: skip
    *EXPORT_FORM,
    Flag(
        "int8_tolerance",
        0.01,
        "With --export_dtype=int8 and --do_eval: by what share of itself a score may be lower "
        "in int8; beyond it nothing is exported.",
        "float",
        low=0.0,
        high=1.0,
    ),
    CALIBRATION_FILE,
    EXPORT_EXPLANATIONS,
)


# === Fine tuning ===
# Flags of fine-tuning, whatever the task: which layers move and how fast, what the loss is, when to stop.


LAYERS = (
    Flag(
        "freeze_layers",
        "0",
        "This many layers stay as they are, from the embeddings up; `all`: the whole encoder, "
        "only the head is trained.",
    ),  # fmt: skip
    Flag(
        "layerwise_lr_decay",
        1.0,
        "Each layer's rate is that of the one above it times this; 1: all the same.",
        "float",
        low=0,
        high=1,
    ),  # fmt: skip
    Flag(
        "unfreeze_epochs",
        0.0,
        "Gradual unfreezing: at first only the head moves; each time this many epochs have "
        "passed, one more layer from the top joins; 0: all from the start.",
        "float",
        low=0,
    ),  # fmt: skip
    Flag(
        "reinit_layers",
        0,
        "This many layers at the top, and the pooler, start from random weights instead of the checkpoint's.",
        "integer",
        low=0,
    ),  # fmt: skip
)

LORA = (
    Flag(
        "lora_rank",
        0,
        "Train low-rank adapters (LoRA) of this rank, the pooler and the head, and nothing else; 0: no adapters.",
        "integer",
        low=0,
    ),  # fmt: skip
    Flag(
        "lora_alpha",
        None,
        "Adapters are multiplied by this over --lora_rank; default: as much as --lora_rank.",
        "float",
        low=0,
    ),  # fmt: skip
    Flag("lora_targets", ["query", "value"], "Which maps of attention have one: query, key, value, output.", "list"),
)

LOSS = (
    Flag(
        "class_weights",
        None,
        "How much the examples of each label weigh in the loss: `balanced`, or label:weight "
        "pairs; labels that are not named weigh 1.",
        "list",
    ),  # fmt: skip
    Flag("label_smoothing", 0.0, "Share of the target that is spread over all labels.", "float", low=0, high=1),
)

STOPPING = (
    Flag(
        "keep_best",
        None,
        "Score every checkpoint on --eval_file and keep the best by this metric: accuracy, f1, matthews, loss ...",
    ),  # fmt: skip
    Flag(
        "early_stopping",
        0,
        "With --keep_best: stop after this many checkpoints in a row without improvement; 0: never.",
        "integer",
        low=0,
    ),  # fmt: skip
)

RECURRENT = (
    Flag(
        "lstm_units",
        None,
        "Units of each direction of a BiLSTM between the encoder and the head, as the paper has "
        "it on a left-to-right encoder; default: no BiLSTM.",
        "integer",
        low=1,
    ),  # fmt: skip
)

LOOK = (
    Flag(
        "strict_data", False, "What the look at the data warns of is an error: nothing is trained or written.", "bool"
    ),  # fmt: skip
    Flag(
        "dry_run",
        False,
        "Look at the data, say what memory and time training would take, and end: nothing is written.",
        "bool",
    ),  # fmt: skip
)

SCORED = (
    Flag(
        "sort_predictions",
        "file",
        "With --do_eval: how eval_predictions.tsv is sorted, as the examples are, or with "
        "the errors first that the model was surest of.",
        choices=PREDICTION_ORDERS,
    ),  # fmt: skip
)

# Flags of every task's program; and those where each example, or word, has a label.
FINE_TUNING = (*MODEL, *RUN, *LAYERS, *LORA, *EXPORT, *GOOGLE_TPU, *LOOK, *SCORED)
LABELS = (*LOSS, *STOPPING)


# === Corpus ===
# Flags of corpora, and of the masks of records that are made of them.


CORPUS = (
    Flag(
        "input_file",
        None,
        "Text: files, globs or folders, with commas between them; .gz and .zst are unpacked.",
        "list",
        required=True,
    ),  # fmt: skip
    Flag(
        "input_format",
        None,
        "A sentence per line and a blank line between documents; running text; or JSON objects, "
        "one per line. Default: guessed for each file, and logged.",
        choices=names.TEXT_FORMATS,
    ),  # fmt: skip
    Flag("text_column", "text", "The key of the text in .jsonl."),
    Flag(
        "document_start",
        None,
        "A regular expression: a line of prose that it matches begins a document. Default: each file is one.",
    ),  # fmt: skip
    Flag("language", "en", "Of prose, as an ISO 639 code: decides where sentences end."),
    Flag("drop_junk_lines", False, "Leave out lines that are hardly language: tables, addresses, markup.", "bool"),
)

MASKING = (
    Flag("max_predictions_per_seq", 20, "Most masked tokens in one sequence.", "integer", low=1),
    Flag("masked_lm_prob", 0.15, "Share of an example's tokens that is masked.", "float", low=0, high=1),
    Flag(
        "masking",
        "token",
        "What is masked together: a token, all tokens of a word, several words in a row (span, as "
        "SpanBERT; ngram, as ALBERT), or a phrase of --phrase_file.",
        choices=names.MASKINGS,
    ),  # fmt: skip
    Flag("phrase_file", None, "With --masking=phrase: phrases and names, one a line."),
    Flag("mask_token_prob", 0.8, "Share of the masked tokens in whose place [MASK] stands.", "float", low=0, high=1),
    Flag(
        "random_token_prob",
        0.1,
        "Share in whose place a random token stands; the rest stays as it is.",
        "float",
        low=0,
        high=1,
    ),  # fmt: skip
)


# === Prompts ===
# What an embedder reads before each text.


PROMPT = (
    Flag("prompt", None, "Put before every text; default: the model's own default prompt, if it has one."),
    Flag("prompt_name", None, "The same, by its name in the model's folder."),
)


# === Beam ===

BEAM = (
    Flag(
        "runner",
        None,
        "Run as an Apache Beam pipeline on this runner, such as DirectRunner, FlinkRunner, "
        "SparkRunner or DataflowRunner.",
    ),  # fmt: skip
    Flag("beam_options", "", "Further options of the pipeline, as on Beam's own command line."),
)
