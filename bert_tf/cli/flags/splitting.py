"""Flags of the program that splits a table."""

from bert_tf.utils.settings import Flag

SPLIT = (
    Flag("input_file", None, "The table: .tsv, .csv, .jsonl or .parquet, the first three also packed (.gz).",
         required=True),  # fmt: skip
    Flag("output_dir", None, "Where train, eval and test go, each with the table's ending.", required=True),
    Flag("eval_share", 0.1, "The share of the rows to score on.", "float"),
    Flag("test_share", 0.0, "The share of the rows to keep for a last test; 0: there is no such file.", "float"),
    Flag("group_column", None, "Rows with the same value in this column, such as a user's, stay together; by name or "
         "by number from 0."),  # fmt: skip
    Flag("seed", 0, "Another number splits the table in another way.", "integer", low=0),
)
