"""Every kind of model: the package gives the gradients and the loss that training has."""
import numpy as np
import pytest

import models
import reference
from checks import assert_trains_alike
from support import assert_close
from tfgradcompat import get_gradients


@pytest.mark.parametrize("build", models.ZOO, ids=lambda build: build.__name__)
def test_trains_alike(build):
    model, batch = build()
    gradients = assert_trains_alike(model, batch)
    assert all(np.any(gradient != 0) for gradient in gradients), "a model of the zoo should use all its weights"


@pytest.mark.per_era
def test_batches_in_dicts():
    model, batch = models.two_by_two(shape="dict")
    assert_trains_alike(model, batch)


@pytest.mark.parametrize("build", [models.deferred, models.subclassed], ids=lambda build: build.__name__)
def test_models_without_weights_yet_at_inference(build):
    model, batch = build()
    gradients = get_gradients(model, **batch)
    assert len(gradients) == len(model.trainable_weights) == 4
    assert_close(gradients, reference.training_gradient(model, **batch))


@pytest.mark.per_era
def test_trained_before():
    """After ``fit``-like training the model has functions and metrics of its own."""
    model, batch = models.two_by_two(metrics={"p": "mae"} if not models.KERAS3 else [["mae"], []])
    model.train_on_batch(**batch)
    assert_trains_alike(model, batch)


@pytest.mark.per_era
def test_a_batch_of_another_size():
    model, batch = models.dense()
    for rows in (4, 2, 1, 3):
        assert_trains_alike(model, {name: value[:rows] for name, value in batch.items()})


def test_targets_of_rank_one():
    """Targets (N,) for outputs (N, 1) count as (N, 1)."""
    model, batch = models.embedding()
    gradient = get_gradients(model, batch["x"], batch["y"][:, 0], learning_phase=1)
    assert_close(gradient, reference.training_gradient(model, **batch))
