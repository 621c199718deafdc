"""Tokenizers that run in the graph: `wordpiece.Tokenizer` for BERT. This module imports nothing."""
