"""Which column of a table is for which input of a model."""

import pytest

from bert_tf.inference.batch_prediction.exported_model import match_columns

QUESTION, PAIR, CHOICES = ("question", "context"), ("text_a", "text_b"), ("context", "choices")
OTHER = ("left", "right")


@pytest.mark.parametrize(
    "inputs, columns, expected",
    [
        (QUESTION, ["question", "context"], ["question", "context"]),
        (QUESTION, ["context", "question"], ["question", "context"]),
        (QUESTION, ["q", "passage"], ["q", "passage"]),  # as `ask` takes them
        (QUESTION, ["passage", "question"], ["question", "passage"]),
        (QUESTION, ["1", "0"], ["1", "0"]),
        (QUESTION, ["context=0", "question=1"], ["1", "0"]),
        (QUESTION, ["question=context", "context=question"], ["context", "question"]),
        (PAIR, ["text_b", "text_a"], ["text_a", "text_b"]),
        (PAIR, ["x", "x"], ["x", "x"]),
        (CHOICES, ["sentence", "endings"], ["sentence", "endings"]),
        (OTHER, ["right", "left"], ["left", "right"]),
        (OTHER, ["right", "x"], ["x", "right"]),
        (OTHER, ["right=x", "left=y=z"], ["y=z", "x"]),
        (("text",), ["a=b"], ["a=b"]),
        (("text",), ["text=review"], ["review"]),
    ],
)
def test_columns_go_by_name_and_else_in_the_order_of_people(inputs, columns, expected):
    assert match_columns(inputs, columns) == dict(zip(inputs, expected, strict=True))


@pytest.mark.parametrize(
    "inputs, columns, message",
    [
        (OTHER, ["x", "y"], "which have no order that is known. Received: x,y; write INPUT=COLUMN for each, such as "
         "left=x,right=y."),
        (QUESTION, ["question"], "for each of the model's inputs: question, context. Received: question."),
        (QUESTION, ["question", "question"], "a different column for each of the model's inputs: question, context"),
        (QUESTION, ["question=a", "question=b"], "Received: question=a,question=b; name each input's column once."),
    ],
)  # fmt: skip
def test_what_cannot_be_known_is_refused(inputs, columns, message):
    with pytest.raises(ValueError) as error:
        match_columns(inputs, columns)
    assert message in str(error.value)
