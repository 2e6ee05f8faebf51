"""Clipping as training does it in this version, and none."""
import pytest

import models
import reference
import support
from checks import assert_trains_alike
from support import assert_close, keras, sgd
from tfgradcompat import get_gradients

OPTIONS = (
    {"clipnorm": 0.1},
    {"clipvalue": 0.05},
    {"clipnorm": 0.1, "clipvalue": 0.05},
    {"global_clipnorm": 0.1},
    {"global_clipnorm": 0.1, "clipvalue": 0.05},
)


def names(options):
    return "+".join(sorted(options))


def optimizer(options, make=sgd):
    try:
        return make(**options)
    except (TypeError, ValueError) as error:
        support.requires(False, "the optimizer refuses %s: %s" % (names(options), error))


@pytest.mark.parametrize("options", OPTIONS, ids=names)
def test_as_training_clips(options):
    model, batch = models.dense(optimizer(options))
    assert_trains_alike(model, batch)


@pytest.mark.per_era
@pytest.mark.parametrize("options", OPTIONS[:2] + OPTIONS[3:4], ids=names)
def test_rows_hit_twice(options):
    """Rows of an embedding that occur more than once: clipped before or after they are added up."""
    model, batch = models.embedding(optimizer(options))
    assert_trains_alike(model, batch)


@pytest.mark.per_era
@pytest.mark.parametrize("options", OPTIONS[:1] + OPTIONS[3:4], ids=names)
def test_some_weights_are_clipped_as_all_are(options):
    """A joint norm is over what training updates, whatever is asked for."""
    model, batch = models.dense(optimizer(options))
    gradient = get_gradients(model, params=model.trainable_weights[2], **batch)
    raw = get_gradients(model, params=model.trainable_weights[2], clip=False, **batch)
    assert_close(gradient, reference.training_gradient(model, **batch)[2])
    model, batch = models.dense()
    assert_close(raw, reference.training_gradient(model, **batch)[2])


@pytest.mark.parametrize("options", OPTIONS[:2], ids=names)
def test_weights_training_leaves_alone_are_not_clipped(options):
    model, batch = models.dense()
    expected = reference.training_gradient(model, **batch)
    model, batch = models.dense(optimizer(options))
    model.get_layer("hidden").trainable = False
    support.compile(model, "mse", optimizer(options))
    kernel = model.get_layer("hidden").weights[0]
    assert_close(get_gradients(model, params=kernel, **batch), expected[0])


def test_without_clipping():
    model, batch = models.dense()
    expected = reference.training_gradient(model, **batch)
    model, batch = models.dense(optimizer(OPTIONS[2], lambda **both: sgd(clipnorm=0.1)))
    assert_close(get_gradients(model, clip=False, **batch), expected)


@pytest.mark.per_era
def test_the_update_rule_does_not_matter():
    model, batch = models.dense()
    expected = reference.training_gradient(model, **batch)
    support.requires(not support.TRAIN_OPTIMIZERS, "eager models take tf.train optimizers only")
    model, batch = models.dense(support.optimizers().Adam())
    assert_close(get_gradients(model, **batch), expected)
    model, batch = models.dense("rmsprop")
    assert_close(get_gradients(model, **batch), expected)


def _other_family(**options):
    """The optimizers that are not the default: legacy ones from 2.11 on, experimental ones in 2.9 and 2.10."""
    support.requires(support.LATE_EAGER, "one family of optimizers")
    if support.TF >= support.Version("2.11"):
        return keras.optimizers.legacy.SGD(learning_rate=1.0, **options)
    support.requires(support.TF >= support.Version("2.9"), "one family of optimizers")
    return keras.optimizers.experimental.SGD(learning_rate=1.0, **options)


@pytest.mark.parametrize("options", OPTIONS, ids=names)
def test_the_other_family_of_optimizers(options):
    model, batch = models.embedding(optimizer(options, _other_family))
    assert_trains_alike(model, batch)


@pytest.mark.parametrize("options", [{}, {"clipnorm": 0.1}], ids=names)
def test_a_tensorflow_optimizer(options):
    """Keras 2 in graph mode and in TensorFlow 1.x takes optimizers of tf.train, which clip nothing."""
    support.requires(not support.KERAS3 and not support.LATE_EAGER, "tf.train optimizers are not taken")
    support.requires(not (support.STANDALONE and support.TF >= support.Version("2.0")), "'Could not interpret optimizer identifier'")
    train = tf_train()
    model, batch = models.dense(train.GradientDescentOptimizer(1.0))
    support.requires(not options, "tf.train optimizers clip nothing")
    expected = get_gradients(model, **batch)
    model, batch = models.dense()
    assert_close(expected, reference.training_gradient(model, **batch))


def tf_train():
    tf = support.tf
    return tf.train if support.TF < support.Version("2.0") else tf.compat.v1.train
