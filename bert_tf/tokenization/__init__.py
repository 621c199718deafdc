"""Tokenizers that run in the graph: `wordpiece.WordPieceTokenizer` for BERT. This module imports nothing."""
