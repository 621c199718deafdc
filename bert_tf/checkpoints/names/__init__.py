"""Weight names in files: weight mappings of each family for Hugging Face's files, and for TF1 checkpoints."""
