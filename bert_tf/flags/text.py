"""Flags of data: tables of texts for fine-tuning, corpora, vocabularies, records."""

from absl import flags


def define_classifier_data():
    """Which texts: a GLUE task's folder, or files."""
    flags.DEFINE_string("task_name", None, "A task whose official files lie in --data_dir: cola, sst-2, mrpc, sts-b, "
                        "qqp, mnli, qnli, rte, wnli or ax of GLUE, or xnli.")  # fmt: skip
    flags.DEFINE_string("data_dir", None, "The folder of --task_name, with train.tsv, dev.tsv and test.tsv, or what "
                        "else the task's files are called.")  # fmt: skip
    flags.DEFINE_string("xnli_language", None, "The language of xnli, as its files call it; default: en.")
    files = "Examples as .tsv, .csv, .jsonl or .parquet, the first three also packed (.gz)"
    flags.DEFINE_string("train_file", None, f"{files}, to train on.")
    flags.DEFINE_string("eval_file", None, f"{files}, to score on.")
    flags.DEFINE_string("predict_file", None, f"{files}, to answer for.")
    flags.DEFINE_bool("header", True, "Whether line 1 of a .tsv or .csv file names its columns.")
    flags.DEFINE_list("text_column", ["text"], "Column of the text, by name or by number from 0; two, with a comma "
                      "between them, for pairs.")  # fmt: skip
    flags.DEFINE_string("label_column", "label", "Column of the label, by name or by number from 0.")
    flags.DEFINE_string("keep_best", None, "Score every checkpoint on --eval_file and keep the best by this metric: "
                        "accuracy, f1, matthews, loss ...")  # fmt: skip


def define_corpus(required=True):
    """Which text, and how sentences and documents are found in it."""
    flags.DEFINE_list("input_file", None, "Text: files, globs or folders, with commas between them; .gz and .zst are "
                      "unpacked.", required=required)  # fmt: skip
    flags.DEFINE_enum("input_format", None, ("sentences", "prose", "jsonl"), "A sentence a line and a blank line "
                      "between documents; running text; or JSON objects, one a line. Default: guessed for each file, "
                      "and said.")  # fmt: skip
    flags.DEFINE_string("text_column", "text", "The key of the text in .jsonl.")
    flags.DEFINE_string("document_start", None, "A regular expression: a line of prose that it finds begins a "
                        "document. Default: each file is one.")  # fmt: skip
    flags.DEFINE_string("language", "en", "Of prose, as an ISO 639 code: says where sentences end.")
    flags.DEFINE_bool("drop_junk_lines", False, "Leave out lines that are hardly language: tables, addresses, markup.")


def define_masking(max_predictions="Masked pieces of a row at most."):
    """What is masked; `max_predictions` explains --max_predictions_per_seq."""
    flags.DEFINE_integer("max_predictions_per_seq", 20, max_predictions, lower_bound=1)
    flags.DEFINE_float("masked_lm_prob", 0.15, "Share of an example's pieces that is masked.", 0, 1)
    flags.DEFINE_enum("masking", "token", ("token", "whole_word", "span"), "What is masked together: a piece, all "
                      "pieces of a word, or several words in a row.")  # fmt: skip


def define_pretraining_data():
    """How records for pretraining are made of text; the first ten are google-research/bert's."""
    flags.DEFINE_list("output_file", None, "Where the records go; .gz at the end: compressed. Several, with commas "
                        "between them: the records are shared out.", required=True)  # fmt: skip
    flags.DEFINE_string("vocab_file", None, "The vocabulary, one piece a line.", required=True)
    flags.DEFINE_bool("do_lower_case", None, "Lowercase the text; default: what tokenizer_config.json beside the "
                      "vocabulary says, else true.")  # fmt: skip
    flags.DEFINE_integer("max_seq_length", 128, "Pieces of a row, [CLS] and [SEP] included.", lower_bound=5)
    define_masking()
    flags.DEFINE_integer("random_seed", 12345, "Of all that is drawn.", lower_bound=0)
    flags.DEFINE_integer("dupe_factor", 10, "Passes over the text, each with other examples and masks.", lower_bound=1)
    flags.DEFINE_float("short_seq_prob", 0.1, "How often an example aims at a random shorter length.", 0, 1)
    flags.DEFINE_bool("do_whole_word_mask", False, "The same as --masking=whole_word.")
    flags.DEFINE_enum("sentence_objective", "nsp", ("nsp", "sop", "none"), "The second text: a random one in half "
                      "of the examples (BERT), swapped with the first in half of them (ALBERT), or none "
                      "(RoBERTa).")  # fmt: skip
    flags.DEFINE_bool("packing", False, "Put several short examples into a row.")
    flags.DEFINE_integer("max_sentences_per_seq", 8, "With --packing, examples in a row at most.", lower_bound=1)
    flags.DEFINE_bool("dynamic_masking", False, "Write records without masks; training masks them anew each epoch.")
    flags.DEFINE_bool("drop_duplicate_lines", False, "Keep one of several equal sentences.")
    flags.DEFINE_integer("num_shards", None, "Write so many files instead of one: NAME-00000-of-00008 and so on.",
                         lower_bound=1)  # fmt: skip
    flags.DEFINE_integer("num_workers", None, "Processes, on which the output does not depend; default: one for each "
                         "core.", lower_bound=1)  # fmt: skip
    flags.DEFINE_string("work_dir", None, "A folder for intermediate files: as much as the text, and twice the "
                        "uncompressed records; default: that of the output.")  # fmt: skip
    flags.DEFINE_string("runner", None, "Run as an Apache Beam pipeline on this runner, such as DirectRunner, "
                        "FlinkRunner, SparkRunner or DataflowRunner.")  # fmt: skip
    flags.DEFINE_string("beam_options", "", "Further options of the pipeline, as Beam's own command line has them.")


def define_train_vocabulary():
    """How a vocabulary is learned, and what it is compared with."""
    flags.DEFINE_string("output_file", "vocab.txt", "Where the vocabulary goes; a report goes beside it.")
    flags.DEFINE_integer("vocab_size", 30522, "Pieces, special ones included.", lower_bound=1)
    flags.DEFINE_bool("do_lower_case", True, "Lowercase the text and strip accents.")
    flags.DEFINE_integer("unused_pieces", 0, "Rows to keep free, [unused0] and on; Google's vocabularies have 99 to "
                         "994.", lower_bound=0)  # fmt: skip
    flags.DEFINE_integer("min_count", 2, "How often a piece must occur at least.", lower_bound=1)
    flags.DEFINE_integer("max_words", 500_000, "Learn from so many distinct words, the most frequent ones; memory and "
                         "time grow with it, some 4 kB and 0.1 ms a word and try.", lower_bound=1)  # fmt: skip
    flags.DEFINE_integer("max_characters", 1000, "So many characters become pieces; rarer ones will be [UNK]. Chinese "
                         "needs some 8000.", lower_bound=1)  # fmt: skip
    flags.DEFINE_list("held_out_file", None, "Text for the report: files, globs or folders. Default: 1 % of "
                      "--input_file, which is not learned from.")  # fmt: skip
    flags.DEFINE_string("compare_vocab_file", None, "Another vocabulary, for the report beside this one.")


def define_extend_vocabulary():
    """Which words a checkpoint's vocabulary gets, and where the new checkpoint goes."""
    flags.DEFINE_string("model", None, "The checkpoint: a Hugging Face, sentence-transformers or bert_tf directory, or "
                        "a TF1 checkpoint's prefix.", required=True)  # fmt: skip
    flags.DEFINE_string("output_dir", None, "Where the new checkpoint goes: a directory that is not there yet, or "
                        "empty.", required=True)  # fmt: skip
    flags.DEFINE_string("words_file", None, "The words to add, one a line. Default: those of --input_file that are "
                        "worth most.")  # fmt: skip
    flags.DEFINE_integer("num_words", 500, "Words to take from --input_file at most.", lower_bound=1)
    flags.DEFINE_integer("min_count", 5, "How often such a word must occur at least.", lower_bound=1)
    flags.DEFINE_bool("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.")
