"""Keywords of `finetune`, `pretrain` and `export_model`. Written by tools/docs/keyword_types.py."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

class FineTuningKeywords(TypedDict, total=False):
    init_checkpoint: str | os.PathLike[str] | None
    """Model to start from: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 checkpoint (its
    directory or prefix). May be a name on the Hugging Face Hub: organization/model."""
    max_seq_length: int
    """Maximum sequence length in tokens, including special tokens. Without training, the default is that of a
    trained model, a published embedder or a published reranker."""
    gradient_checkpointing: bool
    """Recompute activations in the backward pass, to save memory."""
    encoding: str | None
    """Encoding of the input text files, such as cp1252, latin-1 or utf-16. Default: UTF-8, in which invalid bytes
    are dropped and counted."""
    separator: str | None
    """Column separator of .csv and .tsv files: a character, such as ';' or '|', or the word tab. Default: a comma
    in .csv, a tab in .tsv."""
    queries_file: str | os.PathLike[str] | None
    """Texts of the queries of runs: a .tsv file with id and text, without a header, or .jsonl or .parquet with id
    or _id, text and title."""
    documents_file: str | os.PathLike[str] | None
    """Texts of the documents of runs: a .tsv file with id and text, without a header, or .jsonl or .parquet with id
    or _id, text and title."""
    qrels_file: str | os.PathLike[str] | None
    """Relevance judgments for the documents of runs, in TREC or BEIR format."""
    teacher: str | os.PathLike[str] | None
    """Model that was fine-tuned for the same task and labels; training also matches its predictions (knowledge
    distillation). May be a name on the Hugging Face Hub: organization/model. Requires `train`."""
    distillation_temperature: float
    """Temperature that divides the teacher's and the student's logits before they are compared. Requires
    `teacher`."""
    distillation_weight: float
    """Weight of the distillation loss against `teacher`; the label loss gets the remainder. Requires `teacher`."""
    metric_for_best_model: str | None
    """Metric that selects the best checkpoint, such as accuracy, f1, matthews or loss. Every checkpoint is
    evaluated on `eval`, and the best one is kept. Requires `train`."""
    early_stopping: int
    """Number of consecutive checkpoints without improvement after which training stops. 0 turns it off. Requires
    `train` and `metric_for_best_model`."""
    export_dtype: str
    """Data type of weights and computation in the export. int8: quantized matrix products of the encoder, for CPUs.
    float16: for `export_for=gpu`. With `export_for=litert`, float16 and int8 apply to the weights."""
    export_for: str
    """Hardware that the model is exported for. portable: any. cpu: faster on CPUs; in bfloat16, which gains most,
    the weights become constants of the graph and load more slowly. gpu: inputs are padded to a few fixed shapes, so
    that XLA can compile them. The others write another format instead of a SavedModel, which takes token ids.
    litert: a .tflite file for phones and small devices. onnx: for ONNX Runtime, with the extra onnx. openvino: for
    OpenVINO and its Model Server, with the extra openvino."""
    export_threads: int
    """Number of threads that compute each encoder layer; set it to the number of cores available per request.
    Requires `export_for=cpu`."""
    calibration_file: str | os.PathLike[str] | None
    """Texts that calibrate static quantization, which is faster than computing the ranges for each request. One
    example per line, its texts separated by tabs; at most 512 are read. Requires `export_dtype=int8` and
    `export_for=cpu`."""
    export_explanations: Sequence[str] | str
    """Explanations that the export offers as signatures. attention: attention weights of each token; attributions:
    contribution of each token to a prediction."""
    lora_rank: int
    """Rank of low-rank adapters (LoRA): only the adapters, the pooler and the head are trained. 0 turns LoRA off.
    Cannot be combined with `reinit_layers` or `freeze_layers=all`."""
    lora_alpha: float | None
    """LoRA scaling: adapters are multiplied by this value divided by `lora_rank`. Default: the value of
    `lora_rank`. Requires `lora_rank`."""
    lora_targets: Sequence[str] | str
    """Attention projections that get an adapter: query, key, value, output. Requires `lora_rank`."""
    bucket_by_length: bool
    """Batch examples of similar length together, and pad only to the longest of a batch."""
    bucket_batches: int | None
    """Number of batches whose examples are sorted by length together. With fewer, batches are more random and need
    more padding; 1 makes them fully random. Default: one fortieth of the batches of an epoch, but at least 4 and at
    most 50. Requires `bucket_by_length`."""
    pack_examples: bool
    """Pack several short examples into one training sequence, which needs little padding."""
    num_train_epochs: float
    """Number of passes over the training examples."""
    warmup_proportion: float
    """Fraction of the training steps used for warmup of the learning rate."""
    freeze_layers: str | int
    """Number of layers to freeze, from the embeddings up; `all` freezes the whole encoder, so that only the head is
    trained. Requires `train`."""
    layerwise_lr_decay: float
    """Learning-rate multiplier per layer, from the top down. With 1, all layers train at the same learning rate.
    Requires `train`."""
    unfreeze_epochs: float
    """Gradual unfreezing: only the head is trained first, and each time this many epochs have passed, one more
    layer is unfrozen from the top. 0 trains all layers from the start. Requires `train`. Cannot be combined with
    `learning_rate=auto`."""
    reinit_layers: int
    """Number of top layers that start, like the pooler, from random weights instead of the checkpoint's. Requires
    `train`."""
    overwrite_output_dir: bool | os.PathLike[str]
    """Delete an earlier run in `output_dir` and start over. Otherwise, an interrupted run resumes. Requires
    `train`."""
    save_checkpoints_steps: int
    """Number of steps between checkpoints."""
    keep_checkpoints: int
    """How many recent checkpoints to keep."""
    keep_optimizer: bool
    """Keep the optimizer state in the last and the best checkpoint. Otherwise, both contain only the model once the
    run has ended. Requires `train`."""
    save_format: Sequence[str] | str
    """Formats in which the trained model is also saved, each in a subdirectory of `output_dir` with the format's
    name."""
    gradient_accumulation_steps: int
    """Number of micro-batches that each batch is split into, to save memory; the result is the same."""
    precision: str
    """Data type of the computation; weights stay float32. auto: mixed_bfloat16 if the CPU, GPU or TPU multiplies in
    bfloat16, otherwise float32; a resumed run keeps its precision."""
    use_xla: str | bool
    """Compile with XLA. auto: for long runs on a GPU; always on a TPU."""
    compilation_cache_dir: str | os.PathLike[str]
    """Directory for programs compiled by XLA, which later runs load instead of compiling them again. auto:
    bert_tf/xla in the user's cache directory; none: the programs are not kept."""
    seed: int
    """Random seed for new weights, example order and dropout."""
    deterministic: bool
    """Make the same command produce bit-identical weights; may be slower."""
    weight_decay_rate: float
    """Decoupled weight decay per step, multiplied by the learning rate; not applied to LayerNorm and biases."""
    adam_beta1: float
    """Adam's beta1: decay rate of the first-moment estimate."""
    adam_beta2: float
    """Adam's beta2: decay rate of the second-moment estimate."""
    adam_epsilon: float
    """Adam's epsilon, added to the denominator."""
    bias_correction: bool
    """Correct the bias of Adam's moment estimates. Standard Adam does; BERT's original optimizer does not."""
    learning_rate: float | str
    """Peak learning rate, or auto: chosen with a short range test before the first step."""
    schedule: str
    """Learning-rate schedule after warmup."""
    clip_norm: float
    """Maximum global norm of the gradients; larger gradients are scaled down to it. 0 turns clipping off."""
    distribution_strategy: str
    """How training is distributed. default: one device; mirrored: all GPUs of this machine; multi_worker: the GPUs
    of several machines, each of which runs this command; tpu: a TPU. See docs/guides/distributed_training.md."""
    worker_hosts: Sequence[str] | str
    """With `distribution_strategy=multi_worker`: host:port of every worker, the same list on every machine; the
    first worker writes the files. Default: taken from the environment variable TF_CONFIG."""
    task_index: int | None
    """With `worker_hosts`: index of this worker in the list, from 0."""
    use_tpu: bool
    """Same as `distribution_strategy=tpu`."""
    tpu_name: str | None
    """Name of the Cloud TPU, or grpc://host:port. Default: the TPUs of this machine."""
    tpu_zone: str | None
    """Zone of the Cloud TPU. Default: this machine's."""
    gcp_project: str | None
    """Google Cloud project of the TPU. Default: this machine's."""
    master: str | None
    """Address of the TPU, as an alternative to `tpu_name`."""
    train_batch_size: int
    """Examples per training step, summed over all devices."""
    eval_batch_size: int
    """Batch size of evaluation."""
    tracking: str | None
    """Also log losses and metrics to Weights & Biases or MLflow; the package must be installed. Requires
    `train`."""
    bert_config_file: str | os.PathLike[str] | None
    """Model configuration (JSON). Default: the one next to `init_checkpoint`."""
    vocab_file: str | os.PathLike[str] | None
    """Vocabulary file. Default: the one next to `init_checkpoint`."""
    do_lower_case: bool | None
    """Lowercase the text. Default: the checkpoint's setting, otherwise true."""
    predict_batch_size: int
    """Batch size of prediction."""
    export_dir: str | os.PathLike[str] | None
    """Model base directory, as for TensorFlow Serving; the export becomes its next version. Default: the
    subdirectory export of `output_dir`, or litert, onnx or openvino with that value of `export_for`."""
    int8_tolerance: float
    """Maximum relative drop of a metric in int8; nothing is exported if a metric drops further. Requires
    `export_dtype=int8` and `eval`."""
    strict_data: bool
    """Treat data-check warnings as errors: nothing is trained or written."""
    sort_predictions: str
    """Order of eval_predictions.tsv. file: the order of the examples; errors: errors first, the most confident ones
    at the top. Requires `eval`."""
    header: bool
    """Read column names from line 1 of a .tsv or .csv file."""
    task_name: str | None
    """Task whose official files are in `data_dir`: cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli or ax of
    GLUE, or xnli. Cannot be combined with `train`, `eval`, `predict`, `test`, `separator`, `encoding`,
    `label_columns` or `drop_empty`."""
    data_dir: str | os.PathLike[str] | None
    """Directory of `task_name`, with train.tsv, dev.tsv and test.tsv, or the task's own names for these files."""
    text_column: Any
    """Text column, by name or by number from 0; two, separated by a comma, for text pairs."""
    label_column: Any
    """Label column, by name or by number from 0."""
    drop_empty: bool
    """Drop rows of `train`, `eval` and `test` whose text or required label is empty, and log their number. If
    false, a missing text or label is an error."""
    highest_score: float | None
    """Highest possible score, that of two texts with the same meaning; scores, but not the margins of
    `loss=margin_mse`, are divided by it. Default: 1, or that of `task_name`."""
    temperature: float
    """With `loss=in_batch_negatives` or `loss=margin_mse`: temperature that divides the cosines. For margin_mse,
    the default suits differences between logits."""
    margin: float
    """With `loss=contrastive` or `loss=triplet`: margin in cosine distance, beyond which dissimilar texts do not
    add to the loss."""
    matryoshka_dims: Sequence[str] | str | None
    """Numbers of leading dimensions to train as embeddings of their own, such as 384,256,128,64. The loss is the
    mean over them (Matryoshka representation learning). Default: all dimensions only."""
    prompts: str | None
    """Texts to prepend in training, evaluation and searches: a JSON object with query, for first texts, and
    document, for all others; or one text for all. If empty, nothing is prepended. Default: those of
    `init_checkpoint`."""
    eval_metric: str
    """Evaluation. spearman: rank correlation of scores and cosines; retrieval: how often text_a retrieves its own
    text_b; ranking: order of each query's documents by MRR@10, nDCG@10 and MAP, of an `eval` as for `train
    reranker`; auto: spearman or retrieval, whichever fits `loss`."""
    layers: str | None
    """Encoder layers to pool, by name. Default: those of `init_checkpoint` if it has a pooling, otherwise last."""
    pooling: Sequence[str] | str | None
    """Pooling of token features into one vector; the vectors of several poolings are concatenated. Default: that of
    `init_checkpoint` if it has one, otherwise mean."""
    normalize: bool | None
    """Scale each embedding to unit length. Default: the setting of `init_checkpoint` if it has one, otherwise
    false."""
    fit_abstention: float | None
    """Choose, on `eval`, the lowest confidence threshold at which this fraction of the accepted predictions is
    correct, such as 0.95 (selective prediction). The threshold is stored with the model, which then reports whether
    each prediction is confident. Requires `eval`."""
    lstm_units: int | None
    """Units per direction of a BiLSTM between encoder and head, which the BERT paper adds to a left-to-right
    encoder. Default: no BiLSTM. Requires `train`. Cannot be combined with `lora_rank`."""
    doc_stride: int | None
    """Number of tokens from the start of one window to the start of the next. Default: half of `max_seq_length`."""
    max_query_length: int
    """Maximum question length in tokens; the rest is cut off."""
    n_best_size: int
    """Number of answers per question in nbest_predictions.json."""
    max_answer_length: int
    """Maximum answer length in tokens."""
    version_2_with_negative: bool
    """Allow questions without an answer (SQuAD 2.0)."""
    null_score_diff_threshold: float | None
    """Margin by which the score of the null prediction (no answer) must exceed that of the best answer to replace
    it. Default: the best margin that `eval` found, otherwise 0. Requires `version_2_with_negative`."""
    verbose_logging: bool
    """Log every question of `predict` with its answer and scores."""
    class_weights: Sequence[str] | str | Mapping[str, float] | None
    """Weights of the labels in the loss: `balanced`, label:weight pairs, or a .json file with an object of labels
    and weights. Other labels have weight 1. Requires `train`."""
    label_smoothing: float
    """Fraction of the target distribution that is spread over all labels. Requires `train`."""
    rename_labels: Sequence[str] | str
    """With a trained model as `init_checkpoint`: old:new pairs of a label of the model and its name in `train`.
    Renamed labels keep their weights in the head, like labels with unchanged names. Requires `train`."""
    tag_column: int
    """Tag column, by number from 0; a negative number counts from the end."""
    feature_layers: str | None
    """Encoder layers from which a two-layer BiLSTM tags; the encoder is then frozen. Default: the encoder is fine-
    tuned. Requires `train`. Cannot be combined with `lora_rank`, `freeze_layers`, `layerwise_lr_decay`,
    `unfreeze_epochs`, `reinit_layers` or `gradient_checkpointing`."""
    tag_scheme: str
    """Tagging scheme, which marks where entities begin and end. auto: detected from the tags."""
    word_boundaries: str | None
    """Where the words of a text end; each word has one tag. whitespace: at spaces; punctuation: also around
    punctuation and each character of scripts such as Chinese; characters: after every character, so that entities
    can end anywhere. Default: punctuation if the training file has character spans or one Chinese or similar
    character per line; otherwise whitespace."""
    xnli_language: str | None
    """Language of xnli, as its files name it. Default: en."""
    problem_type: str
    """Kind of label in your own files. single_label: one name; multi_label: several, with `label_separator` between
    them; regression: a number."""
    label_separator: str
    """Separator between the labels of an example that has several."""
    label_columns: Sequence[str] | str | None
    """Columns named after the labels. Each cell is 1 or true if the example has the label; 0, false or empty if
    not. Cannot be combined with `label_column` or `label_separator`."""
    fit_temperature: bool
    """Fit, on `eval`, the temperature that best calibrates the probabilities, and store it with the model. Requires
    `eval`."""
    fit_thresholds: bool
    """With `problem_type=multi_label`: fit each label's probability threshold for the highest F1 on `eval`, and
    store it with the model. Unfitted thresholds are 0.5. Requires `eval`."""
    long_text: str
    """Treatment of texts over `max_seq_length`. truncate: cut the end off; window: read the text in overlapping
    windows and average the predictions."""
    max_windows: int
    """Maximum number of windows per text; the rest is cut off."""


class PretrainingKeywords(TypedDict, total=False):
    max_predictions_per_seq: int
    """Maximum number of masked tokens per sequence: that of the records, or for records without masks (`pretrain
    data --dynamic_masking`) the number to draw."""
    masked_lm_prob: float
    """Fraction of the tokens of an example to mask."""
    masking: str
    """Unit that is masked as a whole. token: a token; whole_word: all tokens of a word; span: several consecutive
    words, as in SpanBERT; ngram: the same as in ALBERT; phrase: a phrase of `phrase_file`."""
    phrase_file: str | os.PathLike[str] | None
    """With `masking=phrase`: file of phrases and names, one per line."""
    mask_token_prob: float
    """Fraction of the masked tokens to replace with [MASK]."""
    random_token_prob: float
    """Fraction of the masked tokens to replace with a random token; the rest stays unchanged."""
    overwrite_output_dir: bool | os.PathLike[str]
    """Delete an earlier run in `output_dir` and start over. Otherwise, an interrupted run resumes. Requires
    `input_file`."""
    save_checkpoints_steps: int
    """Number of steps between checkpoints."""
    keep_checkpoints: int
    """How many recent checkpoints to keep."""
    keep_optimizer: bool
    """Keep the optimizer state in the last and the best checkpoint. Otherwise, both contain only the model once the
    run has ended. Requires `input_file`."""
    save_format: Sequence[str] | str
    """Formats in which the trained model is also saved, each in a subdirectory of `output_dir` with the format's
    name."""
    gradient_accumulation_steps: int
    """Number of micro-batches that each batch is split into, to save memory; the result is the same."""
    precision: str
    """Data type of the computation; weights stay float32. auto: mixed_bfloat16 if the CPU, GPU or TPU multiplies in
    bfloat16, otherwise float32; a resumed run keeps its precision."""
    use_xla: str | bool
    """Compile with XLA. auto: for long runs on a GPU; always on a TPU."""
    compilation_cache_dir: str | os.PathLike[str]
    """Directory for programs compiled by XLA, which later runs load instead of compiling them again. auto:
    bert_tf/xla in the user's cache directory; none: the programs are not kept."""
    seed: int
    """Random seed for new weights, example order and dropout."""
    deterministic: bool
    """Make the same command produce bit-identical weights; may be slower."""
    weight_decay_rate: float
    """Decoupled weight decay per step, multiplied by the learning rate; not applied to LayerNorm and biases."""
    adam_beta1: float
    """Adam's beta1: decay rate of the first-moment estimate."""
    adam_beta2: float
    """Adam's beta2: decay rate of the second-moment estimate."""
    adam_epsilon: float
    """Adam's epsilon, added to the denominator."""
    bias_correction: bool
    """Correct the bias of Adam's moment estimates. Standard Adam does; BERT's original optimizer does not."""
    learning_rate: float
    """Peak learning rate."""
    schedule: str
    """Learning-rate schedule after warmup."""
    clip_norm: float
    """Maximum global norm of the gradients; larger gradients are scaled down to it. 0 turns clipping off."""
    distribution_strategy: str
    """How training is distributed. default: one device; mirrored: all GPUs of this machine; multi_worker: the GPUs
    of several machines, each of which runs this command; tpu: a TPU. See docs/guides/distributed_training.md."""
    worker_hosts: Sequence[str] | str
    """With `distribution_strategy=multi_worker`: host:port of every worker, the same list on every machine; the
    first worker writes the files. Default: taken from the environment variable TF_CONFIG."""
    task_index: int | None
    """With `worker_hosts`: index of this worker in the list, from 0."""
    use_tpu: bool
    """Same as `distribution_strategy=tpu`."""
    tpu_name: str | None
    """Name of the Cloud TPU, or grpc://host:port. Default: the TPUs of this machine."""
    tpu_zone: str | None
    """Zone of the Cloud TPU. Default: this machine's."""
    gcp_project: str | None
    """Google Cloud project of the TPU. Default: this machine's."""
    master: str | None
    """Address of the TPU, as an alternative to `tpu_name`."""
    train_batch_size: int
    """Examples per training step, summed over all devices."""
    eval_batch_size: int
    """Batch size of evaluation."""
    tracking: str | None
    """Also log losses and metrics to Weights & Biases or MLflow; the package must be installed. Requires
    `input_file`."""
    bert_config_file: str | os.PathLike[str] | None
    """Model configuration (JSON). Default: the one next to `init_checkpoint`."""
    vocab_file: str | os.PathLike[str] | None
    """Vocabulary file. Default: the one next to `init_checkpoint`, otherwise the one next to the records."""
    do_lower_case: bool | None
    """Lowercase the text. Default: the checkpoint's setting, otherwise true."""
    init_checkpoint: str | os.PathLike[str] | None
    """Model to start from: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 checkpoint (its
    directory or prefix). May be a name on the Hugging Face Hub: organization/model. Cannot be combined with
    `start_embeddings=neighbors` or `start_positions=sinusoidal`."""
    max_seq_length: int
    """Maximum sequence length in tokens, including special tokens. Without training, the default is that of a
    trained model, a published embedder or a published reranker."""
    gradient_checkpointing: bool
    """Recompute activations in the backward pass, to save memory."""
    distillation_temperature: float
    """Temperature that divides the teacher's and the student's logits before they are compared. Requires
    `objective=distillation`."""
    teacher: str | os.PathLike[str] | None
    """Teacher model; its vocabulary must be that of the records. May be a name on the Hugging Face Hub:
    organization/model. Requires `objective=distillation`."""
    phases: str | None
    """Training phases in order, with sequences of different lengths: LENGTHxSTEPS, or a percentage of
    `num_train_steps`, and @BATCH if the batch size differs, such as 128x90%,512x10%@8. Each phase reads the files
    of `input_file` whose sequences have its length."""
    recipe: str | None
    """Recipe by name: sets flags you omit, and logs their values."""
    num_train_steps: int
    """Total number of training steps."""
    num_warmup_steps: int
    """Number of steps during which the learning rate warms up."""
    max_eval_steps: int
    """Maximum number of batches per evaluation."""
    optimizer: str
    """Optimizer: BERT's Adam (adamw), or LAMB for batches of thousands."""
    start_embeddings: str
    """Initial word embeddings of a new model. random; neighbors: computed from the co-occurrence of tokens in the
    records."""
    start_positions: str
    """Initial position embeddings of a new model. random; sinusoidal: sines and cosines."""
    embedding_lr_factor: float
    """Learning rate of the word embeddings, relative to that of all other weights. 0 freezes them, which makes
    steps faster."""
    average_weights: float
    """Weight averaging: the result is a moving average of the weights, comparable to averaging the last FRACTION of
    the steps, such as 0.1; training continues from the weights themselves. 0 turns it off."""
    objective: str
    """Pretraining objective. masked_lm: masked language modeling, also with the masks and sentences of albert,
    roberta or ernie; left_to_right: causal language modeling; electra: replaced-token detection against a small
    generator; distillation: matching the representations of `teacher`."""
    generator_size: float
    """Width, heads and feed-forward width of the generator, as a fraction of the model's. Requires
    `objective=electra`."""
    dropout_prob: float | None
    """Dropout rate in pretraining; the saved model keeps the rate of its configuration, for fine-tuning. Default:
    the rate of the configuration."""
    skip_bad_steps: bool
    """Skip and count a step whose loss is not finite or spikes, and go back to a checkpoint after 20 in a row."""
    distillation_losses: Sequence[str] | str
    """Distillation losses, each with a weight after a colon if it is not 1: soft_targets, masked_lm, hidden,
    attention, query_relations, key_relations, value_relations. Requires `objective=distillation`."""
    teacher_layer: int | None
    """Layer of the teacher whose attention and relations are matched, 1 being the lowest. Default: its last layer.
    Requires `objective=distillation`."""
    relation_heads: int | None
    """Number of relation heads that queries, keys and values are split into to be compared with each other.
    Default: the number of the teacher's attention heads. Requires `objective=distillation`."""


class ExportKeywords(TypedDict, total=False):
    export_dtype: str
    """Data type of weights and computation in the export. int8: quantized matrix products of the encoder, for CPUs.
    float16: for `export_for=gpu`. With `export_for=litert`, float16 and int8 apply to the weights."""
    export_for: str
    """Hardware that the model is exported for. portable: any. cpu: faster on CPUs; in bfloat16, which gains most,
    the weights become constants of the graph and load more slowly. gpu: inputs are padded to a few fixed shapes, so
    that XLA can compile them. The others write another format instead of a SavedModel, which takes token ids.
    litert: a .tflite file for phones and small devices. onnx: for ONNX Runtime, with the extra onnx. openvino: for
    OpenVINO and its Model Server, with the extra openvino."""
    export_threads: int
    """Number of threads that compute each encoder layer; set it to the number of cores available per request.
    Requires `export_for=cpu`."""
    calibration_file: str | os.PathLike[str] | None
    """Texts that calibrate static quantization, which is faster than computing the ranges for each request. One
    example per line, its texts separated by tabs; at most 512 are read. Requires `export_dtype=int8` and
    `export_for=cpu`."""
    export_explanations: Sequence[str] | str
    """Explanations that the export offers as signatures. attention: attention weights of each token; attributions:
    contribution of each token to a prediction."""
