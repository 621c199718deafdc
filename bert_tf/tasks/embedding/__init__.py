"""Sentence embeddings: texts as vectors."""
