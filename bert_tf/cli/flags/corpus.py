"""Flags of corpora, and of the records that are made of them."""

from bert_tf.utils import names
from bert_tf.utils.settings import Flag

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

# Google's flags come first of those of `create_pretraining_data`.
PRETRAINING_DATA = (
    *CORPUS,
    *MASKING,
    Flag("output_file", None, "Where the records go; .gz at the end: compressed. Several, with commas between them: "
         "the records are shared out.", "list", required=True),  # fmt: skip
    Flag("vocab_file", None, "The vocabulary, one piece per line, or a tokenizer.json.", required=True),
    Flag("do_lower_case", None, "Lowercase the text; default: what tokenizer_config.json beside the vocabulary says, "
         "else true.", "bool"),  # fmt: skip
    Flag("max_seq_length", 128, "Pieces of a row, [CLS] and [SEP] included.", "integer", low=5),
    Flag("random_seed", 12345, "For everything that is drawn at random.", "integer", low=0),
    Flag("dupe_factor", 10, "Passes over the text, each with different examples and masks.", "integer", low=1),
    Flag("short_seq_prob", 0.1, "How often an example aims at a random shorter length.", "float", low=0, high=1),
    Flag("do_whole_word_mask", False, "The same as --masking=whole_word.", "bool"),
    Flag("sentence_objective", "nsp", "The second text: a random one in half of the examples (BERT), swapped with the "
         "first in half of them (ALBERT), or none (RoBERTa).", choices=names.SENTENCE_OBJECTIVES),  # fmt: skip
    Flag("packing", False, "Put several short examples into a row.", "bool"),
    Flag("max_sentences_per_seq", 8, "With --packing: most examples in one row.", "integer", low=1),
    Flag("dynamic_masking", False, "Write records without masks; training masks them, each epoch differently.", "bool"),
    Flag("drop_duplicate_lines", False, "Keep one of several equal sentences.", "bool"),
    Flag("num_shards", None, "Write this many files instead of one: NAME-00000-of-00008 and so on.", "integer", low=1),
    Flag("num_workers", None, "Processes, on which the output does not depend; default: one for each core.",
         "integer", low=1),  # fmt: skip
    Flag("work_dir", None, "A folder for intermediate files: as much as the text, and twice the uncompressed records; "
         "default: that of the output."),  # fmt: skip
    Flag("runner", None, "Run as an Apache Beam pipeline on this runner, such as DirectRunner, FlinkRunner, "
         "SparkRunner or DataflowRunner."),  # fmt: skip
    Flag("beam_options", "", "Further options of the pipeline, as on Beam's own command line."),
)
