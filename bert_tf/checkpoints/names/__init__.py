"""Weight names in files: what a name map is, each family's in Hugging Face's files, and those of TF1 checkpoints."""
