"""Flags of programs that answer for every row of a table: what is read, where the answers go, who does the work."""

from bert_tf.utils.settings import Flag, with_attributes

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
