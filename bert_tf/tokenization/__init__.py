"""Tokenizers that run in the graph: `wordpiece.Tokenizer` for BERT. This file is light: it imports nothing."""
