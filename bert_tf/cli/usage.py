"""The help of a command: `bert-tf NAME --help` shows its essential flags by group, `--help=all` shows all of them."""

import inspect
import itertools
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from bert_tf.cli.commands import COMMANDS
from bert_tf.utils.settings import Flag

_WIDTH, _COLUMN = 80, 28
_FEW = 25  # a command with at most this many flags shows all of them

# Title -> names of flags, in the order in which they are shown. An asterisk marks those that --help shows even when a
# command has many. `command.flag` holds for that command alone.
_GROUPS = {
    "What to do": """
        *task *do_train *do_eval *do_predict *do_export *dry_run inspect hub heads *fine_tune compare search
        tuning_metric trials stages search_seed demo_dir version
    """,
    "Data": """
        *input_file *train_file *eval_file test_file *predict_file queries_file documents_file qrels_file data_file
        predictions_file null_odds_file words_file glue_dir tables tasks search.index_dir header separator encoding
        *text_column *label_column *tag_column *problem_type *embed.id_column *embed.keep_columns id_column keep_columns
        on_null label_separator label_columns drop_empty fix tag_scheme word_boundaries task_name data_dir xnli_language
        highest_score *version_2_with_negative group_column eval_share test_share probe.unit max_train_examples
        max_eval_examples max_texts *folds input_format document_start language drop_junk_lines split.seed
        cross_validate.seed probe.seed long_text doc_stride max_windows max_query_length *strict_data
        delete_texts.index_dir mine_negatives.index_dir num_negatives relative_margin range_min range_max
    """,
    "Model": """
        *init_checkpoint *model from bert_config_file vocab_file do_lower_case *max_seq_length predict.signature
        average adapter prune_heads surgery.layers max_position_embeddings
    """,
    "Embeddings and features": """
        layers *pooling normalize *dim *vector_dtype unit prompts *embed.prompt prompt prompt_name
    """,
    "Training": """
        *recipe *phases *minutes *num_train_epochs *num_train_steps *train_batch_size *learning_rate *warmup_proportion
        *num_warmup_steps *keep_best early_stopping schedule optimizer weight_decay_rate adam_beta1 adam_beta2
        adam_epsilon clip_norm bias_correction dropout_prob embedding_lr_factor average_weights start_embeddings
        start_positions gradient_accumulation_steps rematerialize bucket_by_length bucket_batches pack_examples
        skip_bad_steps seeds grid *seed random_seed deterministic save_checkpoints_steps keep_checkpoints keep_optimizer
        tracking
    """,
    "Layers, adapters and loss": """
        *features lstm_units freeze_layers layerwise_lr_decay unfreeze_epochs reinit_layers *lora_rank lora_alpha
        lora_targets *loss temperature margin matryoshka_dims class_weights label_smoothing rename_labels
    """,
    "Distillation": """
        teacher distillation_weight distillation_losses distillation_temperature teacher_layer relation_heads
    """,
    "Pretraining objective and masking": """
        *objective generator_size *sentence_objective *masking do_whole_word_mask phrase_file *masked_lm_prob
        *max_predictions_per_seq mask_token_prob random_token_prob *dynamic_masking *dupe_factor short_seq_prob *packing
        max_sentences_per_seq
    """,
    "Vocabulary": """
        vocab_size unused_pieces num_words min_count max_words max_characters
    """,
    "Evaluation": """
        eval_batch_size max_eval_steps eval_by sort_predictions fit_temperature fit_thresholds fit_abstention
        null_score_diff_threshold tolerance samples compare.seed
    """,
    "Prediction": """
        predict_batch_size predict.batch_size n_best_size max_answer_length verbose_logging top_k probabilities pieces
        views target see.layers approximate rerank rerank_top_k rerank_weight reader
    """,
    "Export": """
        *export_dir export_dtype export_for export_threads calibration_file int8_tolerance export_explanations
        default_seq_length save_format format leave_out with_optimizer
    """,
    "Models to serve": """
        *model_base_path serve.model_name *model_config_file model_config_file_poll_wait_seconds
        file_system_poll_wait_seconds enable_model_config_reload model_config_reload_base_paths
        allow_version_labels_for_unavailable_models keep_previous_version max_num_load_retries
        load_retry_interval_micros num_load_threads num_unload_threads saved_model_tags enable_model_warmup
        num_request_iterations_for_warmup enable_signature_method_name_check prefer_tflite_model num_tflite_pools
    """,
    "Ports and protocols": """
        *port *rest_api_port *host *allowed_hosts *ui *ssl_config_file grpc_socket_path grpc_channel_arguments
        rest_api_enable_cors_support enable_grpc_healthcheck_service enable_grpc_reflection enable_profiler
        *monitoring_config_file enable_serialization_as_tensor_content use_alts_credentials *grace_seconds
        *search_index search_model search_approximate search_reranker search_rerank_weight search_reader
    """,
    "Batching and threads": """
        *enable_batching *batching_parameters_file *max_batch_tokens enable_per_model_batching_parameters
        *tensorflow_intra_op_parallelism *tensorflow_inter_op_parallelism tensorflow_session_parallelism
        *max_concurrent_runs grpc_max_threads rest_api_num_threads tensorflow_session_config_file platform_config_file
        per_process_gpu_memory_fraction mixed_precision thread_pool_factory_config_file
    """,
    "Limits": """
        *rest_api_timeout_in_ms *max_batch_size *max_request_tokens *max_pending_tokens max_message_bytes max_body_bytes
        max_output_elements
    """,
    "Server and requests": """
        server model_name timeout tls tls_root_file tls_key_file tls_certificate_file inputs pair choices signature rest
        callers rate seconds warm_up_seconds load_test.batch_size load_test.seed
    """,
    "Parallel processing": """
        rows_per_part *num_workers work_dir runner beam_options
    """,
    "Devices": """
        *precision use_xla distribution_strategy worker_hosts task_index use_tpu tpu_name tpu_zone gcp_project master
    """,
    "Output": """
        *output_dir *output_file output to *embed.index_dir index_dir *update *overwrite_output_dir overwrite
        *num_shards quote_formulas keep_models examples export_file *json
    """,
}
_OTHER = "Other"
_PLACES = {
    name.removeprefix("*"): (title, name.startswith("*"))
    for title, names in _GROUPS.items()
    for name in names.split()
}  # fmt: skip
_ORDER = {name: number for number, name in enumerate(_PLACES)}


def _key(command, flag):
    """Returns the entry of `_PLACES` that holds for a command's flag."""
    own = f"{command}.{flag.name}"
    return own if own in _PLACES else flag.name


def flag_group(command: str, flag: Flag) -> str:
    """Returns the title under which a command shows a flag."""
    return _PLACES.get(_key(command, flag), (_OTHER, False))[0]


def by_group(command: str, flags: Iterable[Flag], with_all: bool = True) -> dict[str, list[Flag]]:
    """Returns {title: flags} as they are shown; flags without an effect are left out.

    Args:
        command: its name.
        flags: of the command.
        with_all: False leaves out what is not essential, if the command has many flags.
    """
    shown = [flag for flag in flags if flag.has_effect]
    if not with_all and len(shown) > _FEW:
        shown = [flag for flag in shown if flag.required or _PLACES.get(_key(command, flag), ("", False))[1]]
    shown.sort(key=lambda flag: _ORDER.get(_key(command, flag), len(_ORDER)))
    groups = {}
    for title in (*_GROUPS, _OTHER):
        if own := [flag for flag in shown if flag_group(command, flag) == title]:
            groups[title] = own
    return groups


# === Values ===


def allowed_values(flag: Flag) -> str:
    """Returns which values a flag takes, in words: "one of a, b"; "an integer from 1 to 64"."""
    if flag.kind == "bool":
        return "true or false"
    if flag.kind in ("integer", "float"):
        return " or ".join([_numbers_of(flag), *flag.words])
    if flag.kind == "list":
        some = f"one or more of {', '.join(flag.choices)}, separated by commas"
        return some if flag.choices else "a comma-separated list"
    return f"one of {', '.join(flag.choices)}" if flag.choices else "a text"


def _numbers_of(flag):
    noun, low, high = {"integer": "integer", "float": "number"}[flag.kind], flag.low, flag.high
    if low is not None and high is not None:
        return f"{'an' if noun[0] == 'i' else 'a'} {noun} from {low:g} to {high:g}"
    if low is not None:
        known = {("integer", 1): "a positive integer", ("integer", 0): "a non-negative integer",
                 ("float", 0): "a non-negative number"}  # fmt: skip
        return known.get((flag.kind, low), f"{'an' if noun[0] == 'i' else 'a'} {noun}, {_number(low)} or more")
    return "an integer" if noun == "integer" else "a number"


def _number(value):
    return f"{value:g}".replace("e-0", "e-")


def default_of(flag: Flag) -> str:
    """Returns a flag's default as one would write it on a command line; "" for none, an empty one, and false."""
    value: Any = flag.default
    if value is None or value is False or value in ("", [], ()):
        return ""
    if isinstance(value, list | tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _number(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _notes(flag):
    """Returns what --help adds to a flag's explanation, in parentheses."""
    notes = ["required"] if flag.required else []
    if flag.choices or flag.words or flag.kind == "list" or flag.low is not None or flag.high is not None:
        notes.append(allowed_values(flag))
    if default := default_of(flag):
        notes.append(f"default: {default}")
    if flag.default is True:
        notes.append(f"--no{flag.name} turns it off")
    return f" ({'; '.join(notes)})" if notes else ""


# === Pages ===


def asked_for(words: Sequence[str]) -> str:
    """Returns "all" or "short" if a command line asks for help, else ""."""
    extents = set()
    for word in itertools.takewhile(lambda word: word != "--", words):
        name, _, value = word.replace("--", "-", 1).lower().partition("=")
        if name in ("-help", "-helpfull", "-helpshort", "-h", "-?") and value not in ("false", "0"):
            extents.add("all" if name == "-helpfull" or value in ("all", "full") else "short")
    return min(extents, default="")  # "all" rather than "short"


def help_page(module, name: str, typed: str, with_all: bool) -> str:
    """Returns what --help prints.

    Args:
        module: of the command.
        name: of the command.
        typed: how it was started, such as "bert-tf train classifier".
        with_all: show all flags.
    """
    table = [flag for flag in module.FLAGS if flag.has_effect]
    groups = by_group(name, table, with_all)
    lines = [inspect.cleandoc(module.__doc__ or "")]
    for title, flags in groups.items():
        lines += ["", title, *(line for flag in flags for line in _described(flag))]
    lines.append("")
    if command := COMMANDS.get(name):
        lines += [f"Guide: docs/{command.guide}.md", *_other_names(command, typed)]
    if sum(map(len, groups.values())) < len(table):
        lines.append(f"`{typed} --help=all` lists all {len(table)} flags.")
    return "\n".join(lines)


def _other_names(command, typed):
    names = dict.fromkeys([f"bert-tf {command.alias}", f"bert-tf {command.name}"])
    others = [each for each in names if each.replace("-", "_") != typed.replace("-", "_")]
    return [f"Other name of this command: {others[0]}"] if others else []


def _described(flag):
    lines = textwrap.wrap(flag.help + _notes(flag), _WIDTH - _COLUMN, break_on_hyphens=False)
    name = f"  --{flag.name}"
    first = f"{name:<{_COLUMN}}" if len(name) < _COLUMN - 1 else f"{name}\n{'':{_COLUMN}}"
    return [first + lines[0], *(f"{'':{_COLUMN}}{line}" for line in lines[1:])]


def first_clause(text: str) -> str:
    """Returns a flag's help up to its first stop, to be put into a sentence."""
    clause = text
    for stop in (". ", "; ", ": ", " (", ", such as"):
        clause = clause.partition(stop)[0]
    clause = clause.rstrip(".")
    return clause if clause[1:2].isupper() else clause[:1].lower() + clause[1:]
