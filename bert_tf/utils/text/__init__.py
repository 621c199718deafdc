"""Text files to documents of sentences; imports no TensorFlow."""
