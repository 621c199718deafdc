"""Multiple choice: the best of several texts for a context."""
