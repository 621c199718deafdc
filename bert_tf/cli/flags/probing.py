"""Flags of probes: what layers know, and what heads look at."""

from bert_tf.utils.settings import Flag

_FILE = ("Words with tags, as run_tagger reads them, or with --unit=text texts with labels, as run_classifier reads "
         "them")  # fmt: skip

PROBE = (
    Flag("model", None, "The encoder: a Hugging Face, sentence-transformers, KerasHub or bert_tf directory, or a TF1 "
         "checkpoint's prefix.", required=True),  # fmt: skip
    Flag("train_file", None, f"{_FILE}, to learn from; with --heads the texts that heads are measured on.",
         required=True),  # fmt: skip
    Flag("eval_file", None, "The same, to be right on; default: a fifth of --train_file, which then is not learned "
         "from."),  # fmt: skip
    Flag("output_dir", None, "Where the results go.", required=True),
    Flag("unit", "word", "What has labels: each word, or each text.", choices=("word", "text")),
    Flag("text_column", [], "Column of the words, by number from 0, default 0; with --unit=text of the text, by name "
         "or number, default: text; two, with a comma between them, for pairs.", "list"),  # fmt: skip
    Flag("tag_column", -1, "Column of the tag, by number from 0; a negative one counts from the end.", "integer"),
    Flag("label_column", "label", "With --unit=text: column of the label, by name or by number from 0."),
    Flag("header", True, "With --unit=text: whether line 1 of a .tsv or .csv file names its columns.", "bool"),
    Flag("max_train_examples", 20_000, "Words, or texts, to learn from at most, drawn at random by --seed.", "integer",
         low=1),  # fmt: skip
    Flag("max_eval_examples", 10_000, "The same, to be right on.", "integer", low=1),
    Flag("max_seq_length", 128, "Longest row in word pieces, special tokens included; what is longer is cut.",
         "integer", low=3),  # fmt: skip
    Flag("num_train_epochs", None, "Epochs of training the probes; default: 5, or more where these are less than 3,000 "
         "steps of 64 examples.", "integer", low=1),  # fmt: skip
    Flag("seed", 0, "Of all draws: which examples, the control's labels, the order of training.", "integer"),
    Flag("heads", False, "Measure what each attention head looks at instead; labels are not read.", "bool"),
    Flag("max_texts", 500, "With --heads: texts to measure on at most, drawn at random by --seed.", "integer", low=1),
)
