"""From a folder of text to a small encoder in the minutes given; every step is another program."""
