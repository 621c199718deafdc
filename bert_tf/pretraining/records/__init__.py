"""Pretraining data: documents to examples to records."""
