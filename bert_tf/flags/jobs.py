"""Flags of programs that answer for every row of a table: what is read, and where the answers go."""

from bert_tf.settings import Flag

JOB = (
    Flag("input_file", None, "A text a line, or a table with --text_column: .tsv, .csv, .jsonl or .parquet; also "
         "packed (.gz).", required=True),  # fmt: skip
    Flag("output_file", None, "Where the answers go: .npz, .jsonl or .parquet.", required=True),
    Flag("text_column", ["text"], "Column of the text in a table, by name or by number from 0; several with commas "
         "between them.", "list"),  # fmt: skip
    Flag("header", True, "Whether line 1 of a .tsv or .csv file names its columns.", "bool"),
)
