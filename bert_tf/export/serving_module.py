"""A trained model for TensorFlow Serving: from texts to predictions, with every signature as a tf.function."""

import functools

import tensorflow as tf

from bert_tf.export import gpu
from bert_tf.export.cpu import model as cpu_model
from bert_tf.export.explanation_signatures import explanation_signatures
from bert_tf.export.export_options import DEFAULT
from bert_tf.export.text_cut import cut
from bert_tf.models.embeddings import ensure_length
from bert_tf.tokenization.token_counter import TokenCounter
from bert_tf.utils.names import TOKEN_COUNTS

CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


class ServingModule(tf.Module):
    """Served model: tokenizer, encoder and head in one graph.

        serving_default   text [n] (or text_a, text_b [n]): strings     ->  the task's predictions
        ids               the model's inputs, int32 [n, S]              ->  the same
        classify/regress  inputs [n]: tf.Example with those texts       ->  scores, classes / outputs
        attention, attributions  text [n], and what to explain          ->  see docs/reference/rest_grpc.md, on request

    A batch is as long as its longest text, max_seq_length at most; texts beyond that are cut, or read through windows,
    as in training. A model that reads through windows takes N of them per text, int32 [n, N, S]; a window whose
    `input_mask` is 0 is ignored.

    Args:
        task: see `tasks/base.py`; `preprocess`, `postprocess` and `example_answer` compute what signatures return.
        model: the result of the task's `build_model`, with weights.
        tokenizer: a `BaseTokenizer`.
        text_inputs: names of the texts of an example, such as ("text",) or ("text_a", "text_b").
        max_seq_length: longest sequence in tokens.
        blank: token that a text must contain, such as the mask of a fill-mask model; "" for none.
        options: options of the export; the model has their dtype.
        ranges: of `calibration.input_ranges`, if the export uses them.

    Attributes:
        options: options of the export.
        is_calibrated: whether int8 products have calibrated ranges.
        constants: weights that the SavedModel has as constants. If None, there are none.
        num_weights: number of weights of the model.
        weight_specs: shape and dtype of the exported weights, and of their scales.

    Raises:
        ValueError: the model cannot be exported with these options.
    """

    def __init__(self, task, model, tokenizer, text_inputs, max_seq_length, blank="", options=DEFAULT, ranges=None):
        super().__init__(name="served")
        options.check(task)
        model = task.for_serving(model)
        self.task = task
        self.options = options
        self.is_calibrated = ranges is not None
        self.text_inputs = tuple(text_inputs)
        self.max_seq_length = max_seq_length
        self.blank = blank
        self.tokenizer = tokenizer
        # A function and the variables, not the model: Keras objects would be written a second time
        # (keras#23553), with signatures of its own.
        fast, own = cpu_model.fast_model(model, options, ranges)
        self.forward = lambda features: fast({n: features[n] for n in task.features}, training=False)
        self.ids_specs = [tf.TensorSpec(model.input[n].shape, model.input[n].dtype, name=n) for n in task.features]
        self.weight_specs = [tf.TensorSpec(variable.shape, variable.dtype) for variable in model.variables]
        self.num_weights = sum(each.shape.num_elements() for each in self.weight_specs)
        self.weights = [variable.value for variable in model.variables]
        if options.export_for == "gpu":
            self.forward = gpu.with_rounded_shapes(self.forward, self.ids_specs, task.config.max_length)
        self._exported_forward, self.constants = self.forward, None
        if options.has_fast_encoder:
            self._take_fast_weights([*model.variables, *own])
        self.vocab = tf.saved_model.Asset(tokenizer.asset_file)
        # A function, because a dict would become part of the export.
        self.explanation_signatures = explanation_signatures(
            options.explanations, task, model, tokenizer, self.text_inputs, max_seq_length
        )
        self.positions = task.config.max_length

    def _take_fast_weights(self, variables):
        """Traces the forward pass, and once more if the SavedModel has some of the weights as constants.

        Args:
            variables: those of the model and of the fast encoder, of which the pass reads some.
        """
        compute, is_cpu = self.forward, self.options.export_for == "cpu"
        self.forward, used, specs = cpu_model.with_own_weights(compute, self.ids_specs)
        all_gain = is_cpu and cpu_model.gain_as_constants(self.weight_specs)
        read = {id(each) for each in used}
        constants = [each for each in variables if id(each.value) in read and (all_gain or each.dtype == "int8")]
        self._exported_forward = self.forward
        if constants:
            self._exported_forward, self.constants = cpu_model.with_constants(compute, self.ids_specs, constants)
        stored = {id(each.value) for each in constants}
        of_explanations = self.weights if self.options.explanations else []
        self.weights = [*(each for each in used if id(each) not in stored), *of_explanations]
        self.weight_specs = self.weight_specs if all_gain else specs

    def signatures(
        self, only: str | None = None, for_file: bool = False
    ) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Returns {name: traced function}, the default one first.

        Those of texts return `names.TOKEN_COUNTS` too, int64 in the order of `TokenCounts`, which exports hide.

        Args:
            only: the name of the one to return; None for all.
            for_file: whether to trace them for a SavedModel, whose `constants` are to be filled in.
        """
        forward = self._exported_forward if for_file else self.forward
        answer_texts, answer_ids = (functools.partial(each, forward) for each in (self._from_text, self._from_ids))
        named = {"serving_default": (answer_texts, self._text_specs), "ids": (answer_ids, self.ids_specs)}
        if self.task.example_method:
            examples = [tf.TensorSpec([None], tf.string, name="inputs")]
            named[self.task.example_method] = (functools.partial(self._from_examples, forward), examples)
        named |= self.explanation_signatures()
        # Without autograph, and without jit_compile: TensorFlow Serving rejects functions marked for XLA.
        return {
            name: tf.function(function, input_signature=specs, autograph=False).get_concrete_function()
            for name, (function, specs) in named.items()
            if only in (None, name)
        }

    @property
    def _text_specs(self):
        ranks = {name: 1 + (name in self.task.list_inputs) for name in self.text_inputs}
        return [tf.TensorSpec([None] * rank, tf.string, name=name) for name, rank in ranks.items()]

    def _read(self, forward, texts, answer):
        """Returns the results of `postprocess`, a method of the task, for texts, and the counts of `TokenCounter`."""
        counter = TokenCounter(self.tokenizer)
        if not self.task.reads_whole_texts:
            texts = [cut(each, self.max_seq_length, self.tokenizer.SPACES) for each in texts]
        features, origin = self.task.preprocess(counter, texts, self.max_seq_length)
        return {**answer(forward(features), origin), TOKEN_COUNTS: counter.counts()}

    def _from_text(self, forward, *texts):
        return self._read(forward, texts, self.task.postprocess)

    def answer_ids(self, *features):
        """Returns the predictions for the model's inputs, tensors in the order of the task's `features`."""
        return self._from_ids(self.forward, *features)

    def _from_ids(self, forward, *features):
        named = dict(zip(self.task.features, features, strict=True))
        config, size = self.task.config, tf.shape(named["input_ids"])[-1]
        # Without a table, the tokenizer's segments are accepted, and ignored.
        segments = config.type_vocab_size or self.tokenizer.template.second_segment + 1
        ends = {"input_ids": config.vocab_size, "input_mask": 2, "segment_ids": segments, "masked_lm_positions": size}
        named["input_ids"] = ensure_length(named["input_ids"], config)
        named = {name: _check_range(name, values, ends[name]) for name, values in named.items()}
        return self.task.postprocess(forward(named), None)

    def _from_examples(self, forward, inputs):
        spec = {name: tf.io.FixedLenFeature([], tf.string) for name in self.text_inputs}
        parsed = tf.io.parse_example(inputs, spec)
        return self._read(forward, [parsed[name] for name in self.text_inputs], self.task.example_answer)


def _check_range(name, values, end):
    """Returns the values if all are at least 0 and below `end`; otherwise, the graph fails with a message.

    On CPUs, some operations fail by themselves, with the name of a node; others silently use another value.
    Texts are laid out by their mask, in which a large number would count as that many tokens.
    """
    most = "the last position" if tf.is_tensor(end) else end - 1
    said = f"`{name}` must be from 0 to {most}; the request has a value outside this range."
    good = tf.reduce_all((values >= 0) & (values < end))
    with tf.control_dependencies([tf.debugging.Assert(good, [said])]):
        return tf.identity(values)
