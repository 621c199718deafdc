"""The formats of other libraries, and our own: how a model is written in each; `checkpoints/writers.py` lists them."""
