"""A trained model as TensorFlow Serving wants it: text in, answers out, every signature a tf.function."""

import tensorflow as tf

CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


class ServedModel(tf.Module):
    """Tokenizer, encoder and head in one graph.

        serving_default   text [n] (or text_a, text_b [n]): strings     ->  the task's answers
        ids               input_ids, input_mask, segment_ids [n, S]     ->  the same
        classify/regress  inputs [n]: tf.Example with those texts       ->  scores, classes / outputs

    A batch is as long as its longest text, max_seq_length at most; texts beyond that are cut as in training.

    Args:
        task: see `tasks/task.py`; `answer(outputs)` and `example_answer(outputs)` give what the signatures return.
        model: what the task's `build_model` returned, with weights.
        tokenizer: a `Tokenizer`.
        text_inputs: ("text",) or ("text_a", "text_b").
        max_seq_length: longest row.
    """

    def __init__(self, task, model, tokenizer, text_inputs, max_seq_length):
        super().__init__(name="served")
        self.task = task
        self.text_inputs = tuple(text_inputs)
        self.max_seq_length = max_seq_length
        self.tokenizer = tokenizer
        # A function and the variables, not the model: what is a Keras object would be written a second time
        # (keras#23553), with signatures of its own.
        self.forward = lambda features: model(features, training=False)
        self.weights = [variable.value for variable in model.variables]
        self.vocab = tf.saved_model.Asset(tokenizer.vocab_file)

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Returns {name: traced function}, the default one first."""

        def texts_spec(name):
            return tf.TensorSpec([None], tf.string, name=name)

        ids = [tf.TensorSpec([None, None], tf.int32, name=name) for name in self.task.features]
        texts = [texts_spec(name) for name in self.text_inputs]
        named = {
            "serving_default": (self._from_text, texts),
            "ids": (self._from_ids, ids),
            self.task.example_method: (self._from_examples, [texts_spec("inputs")]),
        }
        # Without autograph, and without jit_compile: TensorFlow Serving refuses functions marked for XLA.
        return {
            name: tf.function(function, input_signature=specs, autograph=False).get_concrete_function()
            for name, (function, specs) in named.items()
        }

    def _outputs(self, texts):
        packed = self.tokenizer.pack(*map(self.tokenizer.tokenize, texts), max_seq_length=self.max_seq_length)
        features = self.tokenizer.pad(packed)
        # No texts make rows of no length, and the pooler looks for a first token.
        widen = [[0, 0], [0, tf.maximum(0, 1 - tf.shape(features["input_ids"])[1])]]
        return self.forward({name: tf.pad(features[name], widen) for name in self.task.features})

    def _from_text(self, *texts):
        return self.task.answer(self._outputs(texts))

    def _from_ids(self, *features):
        return self.task.answer(self.forward(dict(zip(self.task.features, features, strict=True))))

    def _from_examples(self, inputs):
        spec = {name: tf.io.FixedLenFeature([], tf.string) for name in self.text_inputs}
        parsed = tf.io.parse_example(inputs, spec)
        return self.task.example_answer(self._outputs([parsed[name] for name in self.text_inputs]))
