"""The comparison most tests make: the package against the framework's own training, or its own refusal."""
import reference
from support import assert_close, tf
from tfgradcompat import value_and_gradients


def assert_trains_alike(model, batch, **options):
    """In the training phase the package gives the loss and the gradients ``train_on_batch`` has.

    ``batch`` holds ``x``, ``y``, ``sample_weight``, ``class_weight``; where ``train_on_batch`` refuses it, the package must
    raise an error of the same type. ``options`` go to the package. It is called first, on the model as it is.
    Returns the gradients, or the error.
    """
    try:
        result = value_and_gradients(model, learning_phase=1, **dict(batch, **options))
        error = None
    except Exception as caught:
        result, error = None, caught
    try:
        loss, gradient = reference.training_loss_and_gradient(model, **batch)
    except Exception as refusal:
        if error is None:
            raise AssertionError("the package gave %s where train_on_batch raises %r" % (result, refusal))
        if not _alike(error, refusal):
            raise error
        return error
    if error is not None:
        raise error
    assert_close(result[1], gradient)
    assert_close(result[0], loss)
    return result[1]


def _alike(error, refusal):
    """Shapes that do not fit are a ValueError where they are known while the step is traced, and fail in its run if not."""
    return isinstance(error, type(refusal)) or all(
        isinstance(one, (ValueError, tf.errors.InvalidArgumentError)) for one in (error, refusal)
    )
