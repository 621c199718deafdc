"""The inside of a model as one page: what `bert_tf.inspect` gives, drawn in a browser that asks for nothing else.

    found = gather(bert, ("The cat sat.",), Choices())
    write_text("page.html", build(found, "uncased_L-12_H-768_A-12"))

See docs/see.md.
"""
