"""Weight names in files: weight mappings, each family's in Hugging Face's files, and those of TF1 checkpoints."""
