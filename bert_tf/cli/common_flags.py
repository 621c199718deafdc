"""Flags that several commands share, by group."""

import dataclasses
import os

from bert_tf.utils import names
from bert_tf.utils.names import PREDICTION_ORDERS
from bert_tf.utils.settings import NO_EFFECT, Flag, Settings, options_of, with_attributes

# === Devices ===
# Flags of devices: on what a run computes.


DEVICES = (
    Flag("distribution_strategy", "default", "One device; all GPUs of this machine; those of several machines, on "
         "each of which the same command runs; or a TPU. See docs/distributed.md.",
         choices=names.STRATEGIES),  # fmt: skip
    Flag("worker_hosts", [], "With multi_worker: host:port of every worker, the same list everywhere; the first one "
         "writes. Default: what the environment variable TF_CONFIG says.", "list"),  # fmt: skip
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


# === Conversion ===
# Flags of conversion: what in which form, and the form in which training leaves its result too.


CONVERT = (
    Flag("from", None, "The model: a Hugging Face, sentence-transformers or bert_tf directory, a KerasHub preset, or a "
         "TF1 checkpoint's prefix.", required=True),  # fmt: skip
    Flag("to", None, "Where it goes: a directory that does not exist yet, or is empty.", required=True),
    Flag("format", None, "The form that it shall have there.", choices=names.FORMATS, required=True),
    Flag("leave_out", [], "Weights that need not come along, by our paths, or the file's names where we know none, and "
         "settings that may change: regular expressions, such as cls/.* or hidden_act.", "list"),  # fmt: skip
    Flag("with_optimizer", False, "Adam's moments and the step too; with --format=bert_tf all that a run needs to go "
         "on.", "bool"),  # fmt: skip
    Flag("overwrite", False, "Replace the model in --to, once the new one is whole.", "bool"),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
)

SAVE = (
    Flag("save_format", [], "Leave the trained model in these forms too, each in a folder of --output_dir called like "
         f"it: {', '.join(names.FORMATS)}.", "list", choices=names.FORMATS),  # fmt: skip
)


# === Distillation ===
# Flags of distillation: which model teaches, and what is learned from it.


_TEMPERATURE = Flag("distillation_temperature", 2.0, "What the teacher's and the student's logits are divided by "
                    "before they are compared.", "float", low=0)  # fmt: skip

OF_TASKS = (
    Flag("teacher", None, "A model fine-tuned for the same task on the same labels, whose answers are learned beside "
         "the labels."),  # fmt: skip
    _TEMPERATURE,
    Flag("distillation_weight", 0.5, "Share of the loss that compares with --teacher; the labels have the rest.",
         "float", low=0, high=1),  # fmt: skip
)

OF_PRETRAINING = (
    Flag("teacher", None, "With --objective=distillation: the model that teaches, with the vocabulary of the records."),
    Flag("distillation_losses", ["query_relations", "key_relations", "value_relations"], "What is learned, with a "
         f"weight after a colon where it is not 1: of {', '.join(names.DISTILLATION_LOSSES)}.", "list"),  # fmt: skip
    _TEMPERATURE,
    Flag("teacher_layer", None, "The teacher's layer whose attention and relations are learned, 1 being the lowest; "
         "default: its last.", "integer", low=1),  # fmt: skip
    Flag("relation_heads", None, "Parts into which queries, keys and values are cut to be compared among themselves; "
         "default: as many as the teacher has attention heads.", "integer", low=1),  # fmt: skip
)


# === Training ===
# Flags of training: what is done, where it goes, and how a step is made.


# The optimizer's numbers; `training.optimizers.AdamConfig` has the same names.
_OPTIMIZER = (
    Flag("learning_rate", 5e-5, "The peak of Adam's rate.", "float", low=0),
    Flag("schedule", "linear", "How the rate falls behind the warm-up.", choices=names.SCHEDULES),
    Flag("weight_decay_rate", 0.01, "Share of each weight, times the rate, that a step takes away; not of LayerNorm "
         "and biases.", "float", low=0),  # fmt: skip
    Flag("adam_beta1", 0.9, "How much of the mean of the gradients stays from step to step.", "float", low=0, high=1),
    Flag("adam_beta2", 0.999, "The same of the mean of their squares.", "float", low=0, high=1),
    Flag("adam_epsilon", 1e-6, "Added to the root of that mean.", "float", low=0),
    Flag("clip_norm", 1.0, "Gradients whose norm over all weights is above this are scaled down to it; 0: none are.",
         "float", low=0),  # fmt: skip
    Flag("bias_correction", False, "Correct both means for having begun at 0, as Adam does and BERT's Adam does not.",
         "bool"),  # fmt: skip
)

# Of any training.
TRAINING = (
    *DEVICES,
    Flag("output_dir", None, "Where checkpoints, scores and predictions go.", required=True),
    Flag("overwrite_output_dir", False, "With --do_train: remove an earlier run there and start over. Without it, "
         "an interrupted run continues.", "bool"),  # fmt: skip
    Flag("do_train", False, "Train.", "bool"),
    Flag("do_eval", False, "Score on held-out examples.", "bool"),
    Flag("train_batch_size", 32, "Examples per step, over all devices.", "integer", low=1),
    Flag("eval_batch_size", 8, "Examples at a time in --do_eval.", "integer", low=1),
    *_OPTIMIZER,
    Flag("save_checkpoints_steps", 1000, "Steps between two checkpoints.", "integer", low=1),
    Flag("keep_checkpoints", 5, "How many of the last checkpoints are kept.", "integer", low=1),
    Flag("keep_optimizer", False, "Keep the optimizer's state in the run's result too; without it, the last checkpoint "
         "and the best one hold only the model once the run has ended.", "bool"),  # fmt: skip
    Flag("gradient_accumulation_steps", 1, "Cut each batch into this many parts, to save memory; the result stays "
         "the same.", "integer", low=1),  # fmt: skip
    Flag("rematerialize", False, "Compute activations again in the backward pass, to save memory.", "bool"),
    Flag("precision", "float32", "What layers compute in; weights stay float32.", choices=names.PRECISIONS),
    Flag("use_xla", "auto", "Compile with XLA; auto: with a GPU or TPU only.", choices=names.USE_XLA),
    Flag("seed", 0, "For new weights, the order of the examples and dropout.", "integer", low=0),
    Flag("deterministic", False, "The same command gives the same weights, bit for bit; may be slower.", "bool"),
    Flag("tracking", None, "Tell losses and scores to Weights & Biases or MLflow too; the package must be installed.",
         choices=names.TRACKERS),  # fmt: skip
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
    Flag("bucket_batches", None, "With --bucket_by_length: the examples of so many batches are sorted by length "
         "together. Fewer: batches are more random, and need more padding; 1: random. Unset: a fortieth of an epoch's, "
         "from 4 to 50.", "integer", low=1),  # fmt: skip
    Flag("pack_examples", False, "Train on rows that hold several short examples each, and little padding.", "bool"),
)


# === Model ===
# Flags of models: where they come from, and where an export goes.


MODEL = (
    Flag("init_checkpoint", None, "Weights to start from: a Hugging Face, sentence-transformers or bert_tf directory, "
         "or a TF1 checkpoint's prefix (.../bert_model.ckpt)."),  # fmt: skip
    Flag("bert_config_file", None, "The model's shape; default: the one beside --init_checkpoint."),
    Flag("vocab_file", None, "The vocabulary; default: the one beside --init_checkpoint."),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
    Flag("max_seq_length", 128, "Longest row in word pieces, special tokens included.", "integer", low=3),
)

_EXPORT_FORM = (
    Flag("export_dtype", "float32", "Of weights and computation in the export; int8 is that of the encoder's matrix "
         "products, for processors; for litert, float16 and int8 are those of the weights.",
         choices=names.EXPORT_DTYPES),
    Flag("export_for", names.EXPORTS_FOR[0], "Where it will be served: cpu is faster there; in bfloat16, where it "
         "gains most, the weights become constants of the graph and load more slowly; litert: a "
         ".tflite file for phones and small devices, in place of a SavedModel.", choices=names.EXPORTS_FOR),
)  # fmt: skip

_CALIBRATION_FILE = Flag(
    "calibration_file", None, "With --export_dtype=int8 and --export_for=cpu: texts that set the ranges of integers, "
    "which is faster than to find them anew in each request; one example in a line, a tab between its texts; 512 at "
    "most are read.",
)  # fmt: skip

_EXPORT_EXPLANATIONS = Flag(
    "export_explanations", [], "Signatures by which the export explains itself, with a comma between them: attention, "
    "what each piece of a text looks at; attributions, which pieces speak for an answer.", "list",
    choices=names.EXPLANATIONS,
)  # fmt: skip

EXPORT = (
    Flag("do_export", False, "Export the trained model for TensorFlow Serving.", "bool"),
    Flag("export_dir", None, "The model's directory as a server knows it; the export becomes its next version; "
         "default: export in --output_dir, or litert there with --export_for=litert."),  # fmt: skip
    *_EXPORT_FORM,
    Flag("int8_tolerance", 0.01, "With --export_dtype=int8 and --do_eval: by what share of itself a score may be lower "
         "in int8; beyond it nothing is exported.", "float", low=0.0, high=1.0),
    _CALIBRATION_FILE,
    _EXPORT_EXPLANATIONS,
)

EXPORT_ALONE = (
    Flag("model", None, "A trained model: what run_classifier or another program left in --output_dir; or a "
         "sentence-transformers directory, to serve its vectors.", required=True),  # fmt: skip
    Flag("export_dir", None, "The model's directory as a server knows it; the export becomes its next version.",
         required=True),  # fmt: skip
    *_EXPORT_FORM,
    _CALIBRATION_FILE,
    _EXPORT_EXPLANATIONS,
)

FILL_MASK = (
    Flag("model", None, "A checkpoint with a masked-LM head: a Hugging Face directory, what run_pretraining left in "
         "--output_dir, or a TF1 checkpoint's prefix.", required=True),  # fmt: skip
    Flag("vocab_file", None, "The vocabulary; default: the one beside the checkpoint."),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
    Flag("max_seq_length", None, "Longest text in word pieces, special tokens included; default: as many as the model "
         "has positions.", "integer", low=3),  # fmt: skip
    Flag("input_file", None, "Texts, one per line, also packed (.gz). Default: the arguments, else standard input."),
    Flag("top_k", 5, "Tokens to answer with for each [MASK].", "integer", low=1),
    Flag("json", False, "Answer in JSON, one object per line for each [MASK].", "bool"),
    Flag("export_dir", None, "Instead of answering: write the model as a SavedModel, the next version below this "
         "directory."),  # fmt: skip
    *_EXPORT_FORM,
)


# === Fine tuning ===
# Flags of fine-tuning, whatever the task: which layers move and how fast, what the loss is, when to stop.


LAYERS = (
    Flag("freeze_layers", "0", "This many layers stay as they are, from the embeddings up; `all`: the whole encoder, "
         "only the head is trained."),  # fmt: skip
    Flag("layerwise_lr_decay", 1.0, "Each layer's rate is that of the one above it times this; 1: all the same.",
         "float", low=0, high=1),  # fmt: skip
    Flag("unfreeze_epochs", 0.0, "Gradual unfreezing: at first only the head moves; each time this many epochs have "
         "passed, one more layer from the top joins; 0: all from the start.", "float", low=0),  # fmt: skip
    Flag("reinit_layers", 0, "This many layers at the top, and the pooler, start from random weights instead of the "
         "checkpoint's.", "integer", low=0),  # fmt: skip
)

LORA = (
    Flag("lora_rank", 0, "Train low-rank adapters (LoRA) of this rank, the pooler and the head, and nothing else; 0: "
         "no adapters.", "integer", low=0),  # fmt: skip
    Flag("lora_alpha", None, "Adapters are multiplied by this over --lora_rank; default: as much as --lora_rank.",
         "float", low=0),  # fmt: skip
    Flag("lora_targets", ["query", "value"], "Which maps of attention have one: query, key, value, output.", "list"),
)

LOSS = (
    Flag("class_weights", None, "How much the examples of each label weigh in the loss: `balanced`, or label:weight "
         "pairs; labels that are not named weigh 1.", "list"),  # fmt: skip
    Flag("label_smoothing", 0.0, "Share of the target that is spread over all labels.", "float", low=0, high=1),
)

STOPPING = (
    Flag("keep_best", None, "Score every checkpoint on --eval_file and keep the best by this metric: accuracy, f1, "
         "matthews, loss ..."),  # fmt: skip
    Flag("early_stopping", 0, "With --keep_best: stop after this many checkpoints in a row without improvement; 0: "
         "never.",
         "integer", low=0),  # fmt: skip
)

RECURRENT = (
    Flag("lstm_units", None, "Units of each direction of a BiLSTM between the encoder and the head, as the paper has "
         "it on a left-to-right encoder; default: no BiLSTM.", "integer", low=1),  # fmt: skip
)

LOOK = (
    Flag("strict_data", False, "What the look at the data warns of is an error: nothing is trained or written.",
         "bool"),  # fmt: skip
    Flag("dry_run", False, "Look at the data, say what memory and time training would take, and end: nothing is "
         "written.", "bool"),  # fmt: skip
)

SCORED = (
    Flag("sort_predictions", "file", "With --do_eval: how eval_predictions.tsv is sorted, as the examples are, or with "
         "the errors first that the model was surest of.", choices=PREDICTION_ORDERS),  # fmt: skip
)

# Flags of every task's program; and those where each example, or word, has a label.
FINE_TUNING = (*MODEL, *RUN, *LAYERS, *LORA, *EXPORT, *GOOGLE_TPU, *LOOK, *SCORED)
LABELS = (*LOSS, *STOPPING)


# === Jobs ===
# Flags of programs that answer for every row of a table: what is read, where the answers go, who does the work.


JOB = (
    Flag("input_file", None, "A text a line, or a table with --text_column: .tsv, .csv, .jsonl or .parquet; also "
         "packed (.gz).", required=True),  # fmt: skip
    Flag("output_file", None, "Where the answers go: .npz, .jsonl, .parquet or .csv.", required=True),
    Flag("text_column", ["text"], "Column of the text in a table, by name or by number from 0; several with commas "
         "between them.", "list"),  # fmt: skip
    Flag("header", True, "Whether line 1 of a .tsv or .csv file names its columns.", "bool"),
    Flag("num_shards", None, "Write this many files instead of one: NAME-00000-of-00008.npz and so on.",
         "integer", low=1),  # fmt: skip
    Flag("rows_per_part", 2048, "Rows that are answered and written together; a run that was killed goes on after the "
         "parts that it wrote. Fewer take less memory.", "integer", low=1),  # fmt: skip
    Flag("num_workers", 1, "Processes, on which the answers do not depend. One uses all cores.", "integer", low=1),
    Flag("overwrite", False, "Throw away what an unfinished run of another command left beside --output_file.", "bool"),
    Flag("quote_formulas", True, "In .csv, put an apostrophe before a text that a spreadsheet takes for a formula: "
         "it begins with =, +, -, @, a tab or a line end and is no number. False: for a program that reads it.",
         "bool"),  # fmt: skip
    Flag("runner", None, "Run as an Apache Beam pipeline on this runner, such as DirectRunner, FlinkRunner, "
         "SparkRunner or DataflowRunner."),  # fmt: skip
    Flag("beam_options", "", "Further options of the pipeline, as on Beam's own command line."),
)

PREDICT = (
    Flag("model", None, "An exported model: its folder of numbered versions, of which the newest answers, or one "
         "version's folder.", required=True),  # fmt: skip
    *with_attributes(JOB, "text_column", default=None, help="Columns of a table, by name or by number from 0. One with "
                     "an input's name is for that input, the others are for the other inputs in the order in which "
                     "`ask` takes them; INPUT=COLUMN for each says it outright. Default: those with the inputs' "
                     "names."),  # fmt: skip
    Flag("id_column", None, "Column of each row's name, by name or by number from 0; default: rows are numbered from "
         "0."),  # fmt: skip
    Flag("keep_columns", [], "Columns of the table that are written beside the answers, by name or by number from 0, "
         "with commas between them.", "list"),  # fmt: skip
    Flag("signature", "serving_default", "Which of the model's signatures answers."),
    Flag("batch_size", 64, "Texts that the model answers at a time.", "integer", low=1),
)


# === Corpus ===
# Flags of corpora, and of the masks of records that are made of them.


CORPUS = (
    Flag("input_file", None, "Text: files, globs or folders, with commas between them; .gz and .zst are unpacked.",
         "list", required=True),  # fmt: skip
    Flag("input_format", None, "A sentence per line and a blank line between documents; running text; or JSON objects, "
         "one per line. Default: guessed for each file, and logged.", choices=names.TEXT_FORMATS),  # fmt: skip
    Flag("text_column", "text", "The key of the text in .jsonl."),
    Flag("document_start", None, "A regular expression: a line of prose that it matches begins a document. Default: "
         "each file is one."),  # fmt: skip
    Flag("language", "en", "Of prose, as an ISO 639 code: decides where sentences end."),
    Flag("drop_junk_lines", False, "Leave out lines that are hardly language: tables, addresses, markup.", "bool"),
)

MASKING = (
    Flag("max_predictions_per_seq", 20, "Most masked pieces in one row.", "integer", low=1),
    Flag("masked_lm_prob", 0.15, "Share of an example's pieces that is masked.", "float", low=0, high=1),
    Flag("masking", "token", "What is masked together: a piece, all pieces of a word, several words in a row (span, as "
         "SpanBERT; ngram, as ALBERT), or a phrase of --phrase_file.", choices=names.MASKINGS),  # fmt: skip
    Flag("phrase_file", None, "With --masking=phrase: phrases and names, one a line."),
    Flag("mask_token_prob", 0.8, "Share of the masked pieces in whose place [MASK] stands.", "float", low=0, high=1),
    Flag("random_token_prob", 0.1, "Share in whose place a random piece stands; the rest stays as it is.", "float",
         low=0, high=1),  # fmt: skip
)


# === Embedding ===
# Flags of sentence embeddings: how a text becomes a vector, and where an index of vectors lies.


VECTOR = (
    Flag("layers", None, "Whose features are pooled, by name; default: what the model's folder says, else last.",
         choices=names.LAYERS),  # fmt: skip
    Flag("pooling", None, "What one vector is made of; several with commas between them stand side by side; default: "
         "what the model's folder says, else mean.", "list", choices=names.POOLINGS),  # fmt: skip
    Flag("normalize", None, "Divide each vector by its length; default: what the model's folder says, else false.",
         "bool"),  # fmt: skip
)

_PROMPT = (
    Flag("prompt", None, "Put before every text; default: the model's own default prompt, if it has one."),
    Flag("prompt_name", None, "The same, by its name in the model's folder."),
)

EMBED = (
    Flag("model", None, "A sentence-transformers directory, what run_embedder left in --output_dir, or any encoder.",
         required=True),  # fmt: skip
    *with_attributes(JOB, "output_file", required=False),
    Flag("index_dir", None, "Instead of --output_file: make an index here, a new directory, for `bert-tf search`."),
    *VECTOR,
    *_PROMPT,
    Flag("max_seq_length", None, "Longest text in word pieces, special tokens included; default: what the model's "
         "folder says, else as many as the model has positions.", "integer", low=3),  # fmt: skip
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
)

SEARCH = (
    Flag("index_dir", None, "What `bert-tf embed --index_dir` made.", required=True),
    Flag("model", None, "The model that the index was made with; default: where it lay then."),
    Flag("top_k", 10, "Texts to answer with for each query.", "integer", low=1),
    *_PROMPT,
    Flag("json", False, "Answer in JSON, one object per line for each query.", "bool"),
)


# === Vocabulary ===
# Flags of extending a checkpoint's vocabulary.


EXTEND_VOCABULARY = (
    *with_attributes(CORPUS, "input_file", required=False),
    Flag("model", None, "The checkpoint: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 "
         "checkpoint's prefix.", required=True),  # fmt: skip
    Flag("output_dir", None, "Where the new checkpoint goes: a directory that does not exist yet, or is empty.",
         required=True),  # fmt: skip
    Flag("words_file", None, "The words to add, one per line. Default: those of --input_file that save most pieces."),
    Flag("num_words", 500, "Most words to take from --input_file.", "integer", low=1),
    Flag("min_count", 5, "Least number of times that such a word must occur.", "integer", low=1),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
)


# === Texts ===
# Values of the flags `CORPUS`.


def text_options(settings: Settings):
    """Returns the `TextOptions`: how documents and sentences are found."""
    from bert_tf.utils.documents import TextOptions

    return TextOptions(
        settings.text_column, settings.document_start, settings.language, settings.drop_junk_lines
    )  # fmt: skip


# === Training ===


def make_run_config(settings: Settings, steps: int, warmup: int, use_xla: bool, identity: dict):
    """Returns the `RunConfig` that the flags of `TRAINING` say.

    Args:
        settings: of the program.
        steps: of the run.
        warmup: steps in which the rate rises.
        use_xla: compile the step.
        identity: what else decides the result, JSON values; a run that is continued must have the same.

    Raises:
        ValueError: a number of the optimizer is out of range, or it does not take one that was given.
    """
    from bert_tf.training.loop import RunConfig
    from bert_tf.training.step import StepConfig

    start, optimizer = settings.init_checkpoint, settings.get("optimizer", RunConfig.optimizer)
    return RunConfig(
        output_dir=settings.output_dir,
        train_batch_size=settings.train_batch_size,
        num_train_steps=steps,
        num_warmup_steps=warmup,
        learning_rate=None if settings.learning_rate == names.AUTO else settings.learning_rate,
        init_checkpoint=start,
        save_checkpoints_steps=settings.save_checkpoints_steps,
        keep_checkpoints=settings.keep_checkpoints,
        keep_optimizer=settings.keep_optimizer,
        anew=settings.overwrite_output_dir,
        optimizer=optimizer,
        schedule=settings.schedule,
        adam=_adam_config(settings, optimizer),
        step=StepConfig(
            seed=settings.seed,
            accumulation=settings.gradient_accumulation_steps,
            clip_norm=settings.clip_norm,
            use_xla=use_xla,
            scale_loss=settings.precision == "mixed_float16",
            pack_examples=settings.get("pack_examples", False),
        ),
        settings={"precision": settings.precision, "init_checkpoint": start and os.path.realpath(start), **identity},
    )


def _adam_config(settings, optimizer):
    from bert_tf.training.optimizers import AdamConfig, always_corrects

    config = options_of(AdamConfig, settings)
    if always_corrects(optimizer):
        if settings.where_given("bias_correction") is False:
            raise ValueError(
                f"`bias_correction=false` must come without `optimizer={optimizer}`, which always corrects. Received "
                "both; leave one of them out."
            )
        config = dataclasses.replace(config, bias_correction=AdamConfig.bias_correction)
    return config


def make_export_options(settings: Settings):
    """Returns the `ExportOptions` that the flags describe.

    Raises:
        ValueError: the options contradict each other, or there are examples to set ranges by where none are taken.
    """
    from bert_tf.export.export_options import ExportOptions

    form = ExportOptions(settings.export_dtype, settings.export_for, tuple(settings.get("export_explanations") or ()))
    if settings.get("calibration_file") is not None and not form.takes_ranges:
        raise ValueError(
            "`calibration_file` must come with `export_dtype=int8` and `export_for=cpu`, whose ranges its texts "
            f"set. Received `export_dtype={form.dtype}` and `export_for={form.export_for}`; leave it out."
        )
    return form
