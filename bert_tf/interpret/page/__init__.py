"""The inside of a model as one page: what `bert_tf.inspect` gives, drawn in a browser that asks for nothing else.

    see(bert, "The cat sat on the mat.")        # in a notebook; `.page` is the file

See docs/see.md.
"""

from bert_tf.interpret.page.page import Seen, see

__all__ = ["Seen", "see"]
