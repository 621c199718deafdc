"""Tagging of words, such as named entity recognition."""
