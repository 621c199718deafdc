"""Quick pretraining: a small encoder from a directory of text within a time limit; each step is another program."""
