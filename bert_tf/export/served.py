"""A trained model as TensorFlow Serving wants it: text in, answers out, every signature a tf.function."""

import tensorflow as tf

from bert_tf.export import processors
from bert_tf.export.explanations import explaining
from bert_tf.export.form import DEFAULT
from bert_tf.export.processors import in_form
from bert_tf.export.text_cut import cut

CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


class ServedModel(tf.Module):
    """Tokenizer, encoder and head in one graph.

        serving_default   text [n] (or text_a, text_b [n]): strings     ->  the task's answers
        ids               the model's inputs, int32 [n, S]              ->  the same
        classify/regress  inputs [n]: tf.Example with those texts       ->  scores, classes / outputs
        attention, attributions  text [n], and what to explain          ->  see `explanations.py`; where they are wanted

    A batch is as long as its longest text, max_seq_length at most; texts beyond that are cut, or read through windows,
    as in training. A model that reads through windows takes N of them for each text, int32 [n, N, S]; a window whose
    `input_mask` is 0 is none.

    Args:
        task: see `tasks/task.py`; `read`, `answer` and `example_answer` make what the signatures return.
        model: what the task's `build_model` returned, with weights.
        tokenizer: a `Tokenizer`.
        text_inputs: names of the texts that an example has, such as ("text",) or ("text_a", "text_b").
        max_seq_length: longest row.
        blank: what a text must hold for the model to answer, such as the mask of one that fills in blanks; "": nothing.
        form: how it is exported; the model has its dtype.
        ranges: of `calibration.input_ranges`, where the form takes them.

    Attributes:
        form: how it is exported.
        is_calibrated: products of integers have ranges that examples have shown.
        num_weights: of the model.
        weight_specs: shape and dtype of what holds them in the export, and of what it holds to round by.

    Raises:
        ValueError: the model cannot be exported so.
    """

    def __init__(self, task, model, tokenizer, text_inputs, max_seq_length, blank="", form=DEFAULT, ranges=None):
        super().__init__(name="served")
        form.check(task)
        model = task.for_serving(model)
        self.task = task
        self.form = form
        self.is_calibrated = ranges is not None
        self.text_inputs = tuple(text_inputs)
        self.max_seq_length = max_seq_length
        self.blank = blank
        self.tokenizer = tokenizer
        # A function and the variables, not the model: what is a Keras object would be written a second time
        # (keras#23553), with signatures of its own.
        self.forward = in_form(
            lambda features: model({n: features[n] for n in task.features}, training=False), form, ranges
        )
        self.ids_specs = [tf.TensorSpec(model.input[n].shape, model.input[n].dtype, name=n) for n in task.features]
        self.weight_specs = [tf.TensorSpec(variable.shape, variable.dtype) for variable in model.variables]
        self.num_weights = sum(each.shape.num_elements() for each in self.weight_specs)
        self.weights = [variable.value for variable in model.variables]
        self._take_constants(form)
        self.vocab = tf.saved_model.Asset(tokenizer.asset_file)
        # A function, which an export does not hold as it would a dict.
        self.explaining = explaining(form.explanations, task, model, tokenizer, self.text_inputs, max_seq_length)
        self.positions = task.config.max_length

    def _take_constants(self, form):
        """Has what is faster as a constant of the graph as one."""
        if form.export_for == "cpu" and processors.gain_as_constants(self.weight_specs):
            self.forward = processors.with_constants(self.forward, self.ids_specs, self.weight_specs)
            self.weights = []
        elif form.has_int8_products or form.is_tensor_parallel:
            found = processors.with_own_weights(self.forward, self.ids_specs)
            self.forward, self.weights, self.weight_specs = found

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Returns {name: traced function}, the default one first."""

        def texts_spec(name, rank=1):
            return tf.TensorSpec([None] * rank, tf.string, name=name)

        several = self.task.list_inputs
        texts = [texts_spec(name, 1 + (name in several)) for name in self.text_inputs]
        named = {"serving_default": (self._from_text, texts), "ids": (self.answer_ids, self.ids_specs)}
        if self.task.example_method:
            named[self.task.example_method] = (self._from_examples, [texts_spec("inputs")])
        named |= self.explaining()
        # Without autograph, and without jit_compile: TensorFlow Serving refuses functions marked for XLA.
        return {
            name: tf.function(function, input_signature=specs, autograph=False).get_concrete_function()
            for name, (function, specs) in named.items()
        }

    def _read(self, texts):
        """Returns what the model makes of the texts, and what `answer` must know besides."""
        if not self.task.reads_whole_texts:
            texts = [cut(each, self.max_seq_length, self.tokenizer.SPACES) for each in texts]
        features, origin = self.task.read(self.tokenizer, texts, self.max_seq_length)
        return self.forward(features), origin

    def _from_text(self, *texts):
        return self.task.answer(*self._read(texts))

    def answer_ids(self, *features):
        """Returns what is answered to the model's inputs, tensors in the order of the task's `features`."""
        named = dict(zip(self.task.features, features, strict=True))
        config, size = self.task.config, tf.shape(named["input_ids"])[-1]
        ends = {"input_ids": config.vocab_size, "input_mask": 2, "segment_ids": max(1, config.type_vocab_size),
                "masked_lm_positions": size}  # fmt: skip
        named = {name: _in_range(name, values, ends[name]) for name, values in named.items()}
        return self.task.answer(self.forward(named), None)

    def _from_examples(self, inputs):
        spec = {name: tf.io.FixedLenFeature([], tf.string) for name in self.text_inputs}
        parsed = tf.io.parse_example(inputs, spec)
        return self.task.example_answer(*self._read([parsed[name] for name in self.text_inputs]))


def _in_range(name, values, end):
    """Returns the values as they are, where all are from 0 to below `end`; else the graph fails with a message.

    Some operations fail by themselves, on processors, with the name of a node; others take such a value for another.
    Texts are laid out by their mask, in which a large number would stand for as many tokens.
    """
    most = "the last position" if tf.is_tensor(end) else end - 1
    said = f"`{name}` must be from 0 to {most}. Received another; correct it."
    good = tf.reduce_all((values >= 0) & (values < end))
    with tf.control_dependencies([tf.debugging.Assert(good, [said])]):
        return tf.identity(values)
