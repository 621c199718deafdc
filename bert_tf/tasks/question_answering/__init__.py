"""Question answering: spans of a context, as in SQuAD."""
