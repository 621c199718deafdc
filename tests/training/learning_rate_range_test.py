"""The curve of a range test: the rate that is chosen by it, and the plot on the run's page."""

import numpy as np
import pytest

from bert_tf.training.learning_rate_range import RangeTest
from bert_tf.training.range_test_section import add_range_test
from bert_tf.utils.html_report import Page

RATES = np.geomspace(1e-6, 1e-1, 80)


def _curve(least_at, rises_at, start=0.7, least=0.5, noise=0.0):
    """Losses that fall to `least`, stay there, and rise fast beyond `rises_at`."""
    falling = start - (start - least) * np.clip(np.log(RATES / 1e-5) / np.log(least_at / 1e-5), 0, 1)
    rising = np.clip(np.log(RATES / rises_at), 0, None) ** 2
    return falling + rising + noise * np.random.default_rng(0).standard_normal(len(RATES))


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize("rises_at", [1e-4, 1e-3, 1e-2])
def test_the_rate_is_a_twelfth_of_the_edge_wherever_the_least_loss_is(rises_at, noise):
    for least_at in (2e-5, rises_at):
        test = RangeTest(RATES.tolist(), _curve(least_at, rises_at, noise=noise).tolist())
        assert rises_at / 2 < test.edge < 2 * rises_at
        assert test.learning_rate == float(f"{test.edge / 12:.1e}")


def test_a_large_loss_at_the_start_does_not_matter():
    """A new head whose logits are large is put right within some steps; that says nothing about the run's rate."""
    plain, large = (RangeTest(RATES.tolist(), _curve(1e-4, 1e-3, start=start).tolist()) for start in (0.7, 4.0))
    assert plain.learning_rate == large.learning_rate


def test_a_loss_that_never_rises_is_good_up_to_the_highest_rate():
    test = RangeTest(RATES.tolist(), np.linspace(2.0, 1.0, 80).tolist())
    assert test.edge == RATES[-1] and test.learning_rate == 8.3e-3


def test_too_few_steps_say_nothing():
    with pytest.raises(ValueError, match=r"`learning_rate=auto` failed: the loss was .* after 3"):
        RangeTest([1e-6, 2e-6, 3e-6], [0.7, 0.7, 0.7])


def test_what_is_kept_makes_the_same_test_and_the_page_shows_it():
    test = RangeTest(RATES.tolist(), _curve(1e-4, 1e-3, noise=0.02).tolist())
    again = RangeTest(*(test.to_dict()[name] for name in ("rates", "losses")))
    assert again == test and test.to_dict()["learning_rate"] == test.learning_rate
    pages = [Page("Run"), Page("Run")]
    for page in pages:
        add_range_test(page, again)
    text = pages[0].html()
    assert text == pages[1].html()
    assert "Learning-rate range test" in text and f"chosen {test.learning_rate:.1e}" in text
