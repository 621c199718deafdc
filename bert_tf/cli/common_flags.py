"""Flags that several commands share, by group."""

from bert_tf.data.dialect import ENCODING_HELP, SEPARATOR_HELP
from bert_tf.utils import names
from bert_tf.utils.names import PREDICTION_ORDERS
from bert_tf.utils.settings import NO_EFFECT, Flag, with_attributes

# === Devices ===
# Flags of devices: on what a run computes.


DEVICES = (
    Flag(
        "distribution_strategy", "default",
        "How training is distributed. default: one device; mirrored: all GPUs of this machine; multi_worker: the "
        "GPUs of several machines, each of which runs this command; tpu: a TPU. See "
        "docs/guides/distributed_training.md.",
        choices=names.STRATEGIES,
    ),
    Flag(
        "worker_hosts", [],
        "With --distribution_strategy=multi_worker: host:port of every worker, the same list on every machine; the "
        "first worker writes the files. Default: taken from the environment variable TF_CONFIG.",
        "list",
    ),
    Flag("task_index", None, "With --worker_hosts: index of this worker in the list, from 0.", "integer", low=0),
)

# google-research/bert's, for Cloud TPUs.
GOOGLE_TPU = (
    Flag("use_tpu", False, "Same as --distribution_strategy=tpu.", "bool"),
    Flag("tpu_name", None, "Name of the Cloud TPU, or grpc://host:port. Default: the TPUs of this machine."),
    Flag("tpu_zone", None, "Zone of the Cloud TPU. Default: this machine's."),
    Flag("gcp_project", None, "Google Cloud project of the TPU. Default: this machine's."),
    Flag("master", None, "Address of the TPU, as an alternative to --tpu_name."),
    Flag("num_tpu_cores", 8, f"{NO_EFFECT}.", "integer"),
    Flag("iterations_per_loop", 1000, f"{NO_EFFECT}.", "integer"),
)


# === Tokenizer ===
# How a model that is asked about texts reads them; None: as its checkpoint says.


TOKENIZER = (
    Flag("vocab_file", None, "Vocabulary file. Default: the one next to the checkpoint."),
    Flag("do_lower_case", None, "Lowercase the text. Default: as the checkpoint says, otherwise true.", "bool"),
    Flag(
        "max_seq_length", None,
        "Maximum text length in tokens, including special tokens. Default: the number of positions of the model.",
        "integer", low=3,
    ),
)  # fmt: skip


# === Tables ===
# How a text table is written; `data.dialect.Dialect` has the same names.


DIALECT = (Flag("separator", None, SEPARATOR_HELP), Flag("encoding", None, ENCODING_HELP))


# === Distillation ===
# Flags of distillation: which model teaches, and what is learned from it.


DISTILLATION_TEMPERATURE = Flag(
    "distillation_temperature", 2.0,
    "Temperature that divides the teacher's and the student's logits before they are compared.",
    "float", low=0,
)

TEACHER = (
    Flag(
        "teacher", None,
        "Model that was fine-tuned for the same task and labels; training also matches its predictions (knowledge "
        "distillation).",
    ),
    DISTILLATION_TEMPERATURE,
    Flag(
        "distillation_weight", 0.5,
        "Weight of the distillation loss against --teacher; the loss on the labels has the rest.",
        "float", low=0, high=1,
    ),
)


# === Training ===
# Flags of training: what is done, where it goes, and how a step is made.


# The optimizer's numbers; `training.optimizers.AdamConfig` has the same names.
_OPTIMIZER = (
    Flag("learning_rate", 5e-5, "Peak learning rate.", "float", low=0),
    Flag("schedule", "linear", "Learning-rate schedule after warmup.", choices=names.SCHEDULES),
    Flag(
        "weight_decay_rate", 0.01,
        "Decoupled weight decay per step, multiplied by the learning rate; not applied to LayerNorm and biases.",
        "float", low=0,
    ),
    Flag("adam_beta1", 0.9, "Adam's beta1: decay rate of the first-moment estimate.", "float", low=0, high=1),
    Flag("adam_beta2", 0.999, "Adam's beta2: decay rate of the second-moment estimate.", "float", low=0, high=1),
    Flag("adam_epsilon", 1e-6, "Adam's epsilon, added to the denominator.", "float", low=0),
    Flag(
        "clip_norm", 1.0,
        "Maximum global norm of the gradients; larger gradients are scaled down to it. 0 turns clipping off.",
        "float", low=0,
    ),
    Flag(
        "bias_correction", False,
        "Correct the bias of Adam's moment estimates. Standard Adam does; BERT's original optimizer does not.",
        "bool",
    ),
)

SAVE = (
    Flag(
        "save_format", [],
        "Formats in which the trained model is also saved, each in a subdirectory of --output_dir with the format's "
        "name.",
        "list", choices=names.FORMATS,
    ),
)

# Of any training.
TRAINING = (
    *DEVICES,
    Flag("output_dir", None, "Directory for checkpoints, metrics and predictions.", required=True),
    Flag(
        "overwrite_output_dir", False,
        "With --do_train: delete an earlier run in --output_dir and start over. Otherwise, an interrupted run "
        "resumes.",
        "bool",
    ),
    Flag("do_train", False, "Train the model.", "bool"),
    Flag("do_eval", False, "Evaluate on held-out examples.", "bool"),
    Flag("train_batch_size", 32, "Examples per training step, summed over all devices.", "integer", low=1),
    Flag("eval_batch_size", 8, "Batch size of evaluation.", "integer", low=1),
    *_OPTIMIZER,
    Flag("save_checkpoints_steps", 1000, "Number of steps between checkpoints.", "integer", low=1),
    Flag("keep_checkpoints", 5, "Number of most recent checkpoints to keep.", "integer", low=1),
    Flag(
        "keep_optimizer", False,
        "Keep the optimizer state in the last and the best checkpoint. Otherwise, both hold only the model once the "
        "run has ended.",
        "bool",
    ),
    Flag(
        "gradient_accumulation_steps", 1,
        "Number of micro-batches that each batch is split into, to save memory; the result is the same.",
        "integer", low=1,
    ),
    Flag("rematerialize", False, "Recompute activations in the backward pass, to save memory.", "bool"),
    Flag(
        "precision", "float32",
        "Data type of the computation; weights stay float32. auto: mixed_bfloat16 if the CPU, GPU or TPU multiplies "
        "in bfloat16, otherwise float32; a resumed run keeps its precision.",
        choices=(names.AUTO, *names.PRECISIONS),
    ),
    Flag("use_xla", "auto", "Compile with XLA. auto: for long runs on a GPU; always on a TPU.", choices=names.USE_XLA),
    Flag("seed", 0, "Random seed for new weights, example order and dropout.", "integer", low=0),
    Flag("deterministic", False, "Make the same command produce bit-identical weights; may be slower.", "bool"),
    Flag(
        "tracking", None,
        "Also log losses and metrics to Weights & Biases or MLflow; the package must be installed.",
        choices=names.TRACKERS,
    ),
    *SAVE,
)

# Of fine-tuning.
_RATE = "Peak learning rate, or auto: chosen with a short range test before the first step."
RUN = (
    *with_attributes(TRAINING, "learning_rate", help=_RATE, words=(names.AUTO,)),
    Flag("do_predict", False, "Predict for examples without labels.", "bool"),
    Flag("predict_batch_size", 8, "Batch size of prediction.", "integer", low=1),
    Flag("num_train_epochs", 3.0, "Number of passes over the training examples.", "float", low=0),
    Flag(
        "warmup_proportion", 0.1,
        "Share of the training steps during which the learning rate warms up.",
        "float", low=0, high=1,
    ),
    Flag(
        "bucket_by_length", True,
        "Batch examples of similar length together, and pad only to the longest of a batch.",
        "bool",
    ),
    Flag(
        "bucket_batches", None,
        "With --bucket_by_length: number of batches whose examples are sorted by length together. With fewer, "
        "batches are more random and need more padding; 1 makes them fully random. Default: one fortieth of the "
        "batches of an epoch, but from 4 to 50.",
        "integer", low=1,
    ),
    Flag(
        "pack_examples", False,
        "Pack several short examples into one training sequence, which needs little padding.",
        "bool",
    ),
)


# === Model ===
# Flags of models: where they come from, and where an export goes.


MODEL = (
    Flag(
        "init_checkpoint", None,
        "Model to start from: a Hugging Face, sentence-transformers or bert_tf directory, or the prefix of a TF1 "
        "checkpoint (.../bert_model.ckpt).",
    ),
    Flag("bert_config_file", None, "Model configuration (JSON). Default: the one next to --init_checkpoint."),
    Flag("vocab_file", None, "Vocabulary file. Default: the one next to --init_checkpoint."),
    Flag("do_lower_case", None, "Lowercase the text. Default: as the checkpoint says, otherwise true.", "bool"),
    Flag(
        "max_seq_length", 128,
        "Maximum sequence length in tokens, including special tokens. Without --do_train, a trained model keeps its "
        "own by default, and so do published embedders and rerankers.",
        "integer", low=3,
    ),
)  # fmt: skip

EXPORT_FORM = (
    Flag(
        "export_dtype", "float32",
        "Data type of weights and computation in the export. int8: quantized matrix products of the encoder, for "
        "CPUs. float16: for --export_for=gpu. With --export_for=litert, float16 and int8 apply to the weights.",
        choices=names.EXPORT_DTYPES,
    ),
    Flag(
        "export_for", names.EXPORTS_FOR[0],
        "Hardware that the model is exported for. portable: any. cpu: faster on CPUs; in bfloat16, which gains most, "
        "the weights become constants of the graph and load more slowly. gpu: requests are computed in few shapes, "
        "so that XLA can compile them. litert: a .tflite file for phones and small devices instead of a SavedModel.",
        choices=names.EXPORTS_FOR,
    ),
    Flag(
        "export_threads", 2,
        "With --export_for=cpu: number of threads that compute each encoder layer; as many as the server has cores "
        "per request.",
        "integer", low=1, high=64,
    ),
)  # fmt: skip

CALIBRATION_FILE = Flag(
    "calibration_file", None,
    "With --export_dtype=int8 and --export_for=cpu: texts that calibrate static quantization ranges, which is faster "
    "than computing the ranges for each request. One example per line, its texts separated by tabs; at most 512 are "
    "read.",
)

EXPORT_EXPLANATIONS = Flag(
    "export_explanations", [],
    "Explanations that the export offers as signatures. attention: attention weights of each token; attributions: "
    "contribution of each token to a prediction.",
    "list", choices=names.EXPLANATIONS,
)

EXPORT = (
    Flag("do_export", False, "Export the trained model for TensorFlow Serving.", "bool"),
    Flag(
        "export_dir", None,
        "Model directory as a server expects it; the export becomes its next version. Default: export in "
        "--output_dir, or litert there with --export_for=litert.",
    ),
    *EXPORT_FORM,
    Flag(
        "int8_tolerance", 0.01,
        "With --export_dtype=int8 and --do_eval: maximum relative drop of a metric in int8; nothing is exported if "
        "one drops further.",
        "float", low=0.0, high=1.0,
    ),
    CALIBRATION_FILE,
    EXPORT_EXPLANATIONS,
)


# === Fine tuning ===
# Flags of fine-tuning, whatever the task: which layers move and how fast, what the loss is, when to stop.


LAYERS = (
    Flag(
        "freeze_layers", "0",
        "Number of layers to freeze, from the embeddings up; `all` freezes the whole encoder, so that only the head "
        "is trained.",
    ),
    Flag(
        "layerwise_lr_decay", 1.0,
        "Factor between the learning rates of a layer and of the layer above it. 1: all layers train at the same "
        "learning rate.",
        "float", low=0, high=1,
    ),
    Flag(
        "unfreeze_epochs", 0.0,
        "Gradual unfreezing: only the head is trained first, and each time this many epochs have passed, one more "
        "layer is unfrozen from the top. 0 trains all layers from the start.",
        "float", low=0,
    ),
    Flag(
        "reinit_layers", 0,
        "Number of top layers that start, like the pooler, from random weights instead of the checkpoint's.",
        "integer", low=0,
    ),
)

LORA = (
    Flag(
        "lora_rank", 0,
        "Rank of low-rank adapters (LoRA): only the adapters, the pooler and the head are trained. 0 turns LoRA off.",
        "integer", low=0,
    ),
    Flag(
        "lora_alpha", None,
        "LoRA scaling: adapters are multiplied by this value divided by --lora_rank. Default: the value of "
        "--lora_rank.",
        "float", low=0,
    ),
    Flag(
        "lora_targets", ["query", "value"],
        "Attention projections that get an adapter: query, key, value, output.",
        "list",
    ),
)

LOSS = (
    Flag(
        "class_weights", None,
        "Weights of the labels in the loss: `balanced`, label:weight pairs, or a .json file with an object of labels "
        "and weights. Other labels have weight 1.",
        "list",
    ),
    Flag(
        "label_smoothing", 0.0,
        "Share of the target distribution that is spread over all labels.",
        "float", low=0, high=1,
    ),
)

RENAME_LABELS = Flag(
    "rename_labels", [],
    "With a trained model as --init_checkpoint: old:new pairs of a label of the model and its name in --train_file. "
    "Renamed labels keep their weights in the head, like labels with unchanged names.",
    "list",
)

STOPPING = (
    Flag(
        "keep_best", None,
        "Metric by which every checkpoint is evaluated on --eval_file and the best one kept: accuracy, f1, matthews, "
        "loss, ...",
    ),
    Flag(
        "early_stopping", 0,
        "With --keep_best: number of consecutive checkpoints without improvement after which training stops. 0 turns "
        "it off.",
        "integer", low=0,
    ),
)

RECURRENT = (
    Flag(
        "lstm_units", None,
        "Units per direction of a BiLSTM between encoder and head, as the BERT paper has it on a left-to-right "
        "encoder. Default: no BiLSTM.",
        "integer", low=1,
    ),
)

LOOK = (
    Flag("strict_data", False, "Treat data-check warnings as errors: nothing is trained or written.", "bool"),
    Flag(
        "dry_run", False,
        "Check the data and report the memory and time that training would take; nothing is written.",
        "bool",
    ),
)

SCORED = (
    Flag(
        "test_file", None,
        "With --do_eval: labeled examples in the format of --eval_file, on which the final model is evaluated too. "
        "They are not used to select or fit anything. The names of the output files include that of the test file.",
    ),
    Flag(
        "sort_predictions", "file",
        "With --do_eval: order of eval_predictions.tsv. file: as the examples are; errors: errors first, the most "
        "confident ones at the top.",
        choices=PREDICTION_ORDERS,
    ),
)

# Flags of every task's program; and those where each example, or word, has a label.
FINE_TUNING = (*MODEL, *RUN, *LAYERS, *LORA, *EXPORT, *GOOGLE_TPU, *LOOK, *SCORED)
LABELS = (*LOSS, *STOPPING, RENAME_LABELS)


# === Corpus ===
# Flags of corpora, and of the masks of records that are made of them.


CORPUS = (
    Flag(
        "input_file", None,
        "Text to read: files, glob patterns or directories, separated by commas; .gz and .zst are decompressed.",
        "list", required=True,
    ),
    Flag(
        "input_format", None,
        "Format of the text. sentences: one sentence per line, with a blank line between documents; prose: running "
        "text; jsonl: one JSON object per line. Default: detected for each file, and logged.",
        choices=names.TEXT_FORMATS,
    ),
    Flag("text_column", "text", "Key of the text in the objects of .jsonl files."),
    Flag(
        "document_start", None,
        "Regular expression for lines of prose that start a document. Default: each file is one document.",
    ),
    Flag("language", "en", "Language of prose, as an ISO 639 code; decides where sentences end."),
    Flag("drop_junk_lines", False, "Skip lines that are hardly language: tables, addresses, markup.", "bool"),
)

MASKING = (
    Flag("max_predictions_per_seq", 20, "Maximum number of masked tokens per sequence.", "integer", low=1),
    Flag("masked_lm_prob", 0.15, "Share of the tokens of an example that is masked.", "float", low=0, high=1),
    Flag(
        "masking", "token",
        "Unit that is masked as a whole. token: a token; whole_word: all tokens of a word; span: several consecutive "
        "words, as in SpanBERT; ngram: the same as in ALBERT; phrase: a phrase of --phrase_file.",
        choices=names.MASKINGS,
    ),
    Flag("phrase_file", None, "With --masking=phrase: file of phrases and names, one per line."),
    Flag("mask_token_prob", 0.8, "Share of the masked tokens that is replaced with [MASK].", "float", low=0, high=1),
    Flag(
        "random_token_prob", 0.1,
        "Share of the masked tokens that is replaced with a random token; the rest stays unchanged.",
        "float", low=0, high=1,
    ),
)


# === Prompts ===
# What an embedder reads before each text.


PROMPT = (
    Flag(
        "prompt", None,
        "Text to prepend to every text. Default: with an index, the model's prompt for queries or documents, by its "
        "name; otherwise its default prompt, if it has one.",
    ),
    Flag("prompt_name", None, "Name of a prompt in the model's directory, as an alternative to --prompt."),
)


# === Searching an index ===


APPROXIMATE = (
    Flag(
        "approximate", False,
        "Search large indexes with a graph (HNSW), which is faster and may miss some of the nearest texts. The first "
        "search creates the graph and stores it in the index. Requires pip install 'bert-tf[usearch]'.",
        "bool",
    ),
)


# === Beam ===

BEAM = (
    Flag(
        "runner", None,
        "Runner for an Apache Beam pipeline, such as DirectRunner, FlinkRunner, SparkRunner or DataflowRunner. "
        "Default: no Beam.",
    ),
    Flag("beam_options", "", "Further options of the pipeline, as on Beam's command line."),
)
