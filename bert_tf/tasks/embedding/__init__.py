"""Vectors of texts, trained on pairs."""
