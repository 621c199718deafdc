"""What `pretrain run` makes of its flags: objectives, masks, first weights, and which flags contradict each other."""


from bert_tf.pretraining.masking import Masking
from bert_tf.pretraining.objectives.registry import Electra
from bert_tf.runs.pretraining_options import choose_masks, make_masking, make_objective
from bert_tf.runs.settings import PretrainingSettings


def _settings(**given):
    return PretrainingSettings().give(given)


def test_an_objective_has_its_own_settings():
    objective = make_objective(_settings(objective="electra", generator_size=0.5))
    assert type(objective) is Electra and objective.generator_size == 0.5


def test_the_flags_of_masks_have_the_defaults_of_masks():
    assert make_masking(_settings()) == Masking()
    shares = {"mask_token_prob": 0.7, "random_token_prob": 0.0}
    assert make_masking(_settings(**shares, max_predictions_per_seq=5)) == Masking(max_predictions=5, **shares)


def test_flags_of_masks_have_no_effect_where_nothing_is_masked(caplog):
    settings = _settings(objective="left_to_right", masked_lm_prob=0.4, masking="span")
    assert choose_masks(settings, make_objective(settings), None, [], 128) is None
    said = "`masked_lm_prob`, `masking` has no effect with `objective=left_to_right`, which masks nothing."
    assert [record.getMessage() for record in caplog.records] == [said]
    plain = _settings(objective="left_to_right")
    assert choose_masks(plain, make_objective(plain), None, [], 128) is None and len(caplog.records) == 1
