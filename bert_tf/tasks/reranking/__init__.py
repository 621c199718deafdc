"""Reranking: documents in the order of their relevance to a query."""
