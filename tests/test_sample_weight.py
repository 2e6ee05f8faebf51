"""Sample and class weights; in graph mode they may appear in the loss and disappear from it again."""
import numpy as np
import pytest

import models
import reference
import support
from checks import assert_trains_alike
from support import assert_close, layers
from tfgradcompat import get_gradients

HALF = np.array([3, 3, 0, 0], "float32")  # tells division by the sum of weights, the share of weighted samples and the number
MIXED = np.array([0.5, 1, 2, 4], "float32")
ZERO = np.zeros(4, "float32")
CLASS_WEIGHT = {0: 1.0, 1: 2.0, 2: 5.0}


def test_weights_come_and_go():
    """Whatever was asked or trained before, the next call is right: each is made on the model the others left."""
    model, batch = models.dense()
    for sample_weight in (None, HALF, None, MIXED, MIXED, None):
        assert_trains_alike(model, dict(batch, sample_weight=sample_weight))


@pytest.mark.per_era
def test_weights_come_and_go_without_training_between():
    model, batch = models.dense()
    results = [get_gradients(model, sample_weight=sample_weight, **batch) for sample_weight in (None, HALF, None, MIXED)]
    expected = [
        reference.training_gradient(model, sample_weight=sample_weight, **batch) for sample_weight in (None, HALF, None, MIXED)
    ]
    for result, gradient in zip(results, expected):
        assert_close(result, gradient)


@pytest.mark.per_era
@pytest.mark.parametrize("trained_with", [None, HALF], ids=["trained-without", "trained-with"])
def test_after_training_with_or_without_weights(trained_with):
    model, batch = models.dense()
    model.train_on_batch(batch["x"], batch["y"], **reference.given(sample_weight=trained_with))
    assert_trains_alike(model, dict(batch, sample_weight=MIXED))
    model.train_on_batch(batch["x"], batch["y"], **reference.given(sample_weight=trained_with))
    assert_trains_alike(model, batch)


def test_all_weights_zero():
    """NaN in old releases, zero in newer ones."""
    model, batch = models.linear(regularizer=support.keras.regularizers.l2(0.3))
    assert_trains_alike(model, dict(batch, sample_weight=ZERO))


def test_the_inference_loss_is_weighted_too():
    model, batch = models.batch_norm(rate=None)
    gradient = get_gradients(model, sample_weight=HALF, **batch)
    assert_close(gradient, reference.finite_differences(model, sample_weight=HALF, **batch), absolute=1e-5)


@pytest.mark.per_era
@pytest.mark.parametrize("form", ["list", "dict", "some", "one for all"])
def test_weights_per_output(form):
    model, batch = models.loss_weights(shape="dict" if form == "dict" else "list")
    weights = {"list": [HALF, MIXED], "dict": {"p": HALF, "q": MIXED}, "some": [None, MIXED], "one for all": MIXED}
    assert_trains_alike(model, dict(batch, sample_weight=weights[form]))


def test_temporal_weights():
    model, batch = models.steps()
    assert_trains_alike(model, batch)
    del batch["sample_weight"]
    assert_trains_alike(model, batch)


@pytest.mark.parametrize("shape", [(4,), (4, 1)], ids=str)
def test_weights_of_masked_sequences(shape):
    model, batch = models.lstm(cell=layers.SimpleRNN)
    assert_trains_alike(model, dict(batch, sample_weight=MIXED.reshape(shape)))


def test_class_weights():
    """With sample weights as well the product, the sample weights alone, or an error."""
    model, batch = models.classes()
    assert_trains_alike(model, dict(batch, class_weight=CLASS_WEIGHT))
    assert_trains_alike(model, batch)
    assert_trains_alike(model, dict(batch, class_weight=CLASS_WEIGHT, sample_weight=HALF))


@pytest.mark.per_era
def test_class_weights_of_several_outputs():
    model, batch = models.two_by_two()
    assert_trains_alike(model, dict(batch, class_weight={0: 1.0, 1: 2.0}))
