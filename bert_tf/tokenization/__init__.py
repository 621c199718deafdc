"""Text to ids, in the graph. `wordpiece.Tokenizer` is the way in; this file imports nothing, so that it stays light."""
