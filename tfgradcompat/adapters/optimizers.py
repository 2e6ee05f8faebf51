"""What an optimizer does to a loss and its gradients before the update rule: scaling and clipping.

Every family is asked by capability; the optimizer's own code does the work, so its order of operations is kept.
"""

CLIP_OPTIONS = ("clipnorm", "clipvalue", "global_clipnorm")


def inner(optimizer):
    """The optimizer that a loss-scale optimizer wraps, or the optimizer itself."""
    while _scales_loss(optimizer):
        wrapped = getattr(optimizer, "inner_optimizer", None)
        if wrapped is None:
            wrapped = getattr(optimizer, "_optimizer", None)  # Keras's LossScaleOptimizer of TensorFlow 2.0-2.3
        if wrapped is None:
            return optimizer
        optimizer = wrapped
    return optimizer


def _scales_loss(optimizer):
    # Keras 2's wrappers have get_scaled_loss; Keras 3's has not, but is the only one that holds another optimizer and a scale.
    return hasattr(optimizer, "get_scaled_loss") or (hasattr(optimizer, "inner_optimizer") and hasattr(optimizer, "initial_scale"))


def scaled_loss(optimizer, loss):
    """The loss as training multiplies it before differentiating."""
    if hasattr(optimizer, "get_scaled_loss"):
        return optimizer.get_scaled_loss(loss)
    if hasattr(optimizer, "scale_loss"):  # every Keras 3 optimizer
        return optimizer.scale_loss(loss)
    return loss


def unscaled_gradients(tf, optimizer, gradients):
    """The gradients of the loss itself from those of ``scaled_loss``; ``None`` stays."""
    if hasattr(optimizer, "get_unscaled_gradients"):
        return list(optimizer.get_unscaled_gradients(gradients))
    if _scales_loss(optimizer):  # Keras 3: unscaling is part of apply()
        scale = optimizer.dynamic_scale if optimizer.built else optimizer.initial_scale
        return unscaled_gradients(tf, optimizer.inner_optimizer, [_divided(tf, gradient, scale) for gradient in gradients])
    factor = getattr(optimizer, "loss_scale_factor", None)  # Keras 3's plain optimizers
    return list(gradients) if factor is None else [_divided(tf, gradient, factor) for gradient in gradients]


def _divided(tf, gradient, scale):
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_divided(tf, gradient.values, scale), gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(scale, gradient.dtype)


def clips(optimizer):
    """Whether the optimizer changes gradients between unscaling and the update rule."""
    return any(value is not None for value in options(optimizer)) or clips_jointly(optimizer)


def clips_jointly(optimizer):
    """Whether one gradient's clipping depends on the others'."""
    optimizer = inner(optimizer)
    # gradient_transformers (2.4-2.10) get the whole list
    return getattr(optimizer, "global_clipnorm", None) is not None or bool(getattr(optimizer, "gradient_transformers", None))


def clipped_gradients(optimizer, gradients, weights):
    """The gradients as the update rule receives them; none of ``gradients`` is ``None``."""
    optimizer = inner(optimizer)
    if not gradients:
        return []
    if hasattr(optimizer, "_transform_gradients"):  # OptimizerV2 from 2.4 on, "legacy" from 2.11 on
        return [gradient for gradient, _ in optimizer._transform_gradients(list(zip(gradients, weights)))]
    if hasattr(optimizer, "_clip_gradients"):  # OptimizerV2 of 2.2-2.3, new-style 2.9-2.15, Keras 3
        return list(optimizer._clip_gradients(list(gradients)))
    return list(gradients)  # tf.train optimizers have no such options


def options(optimizer):
    """The settings that a traced function bakes in; part of its cache key."""
    optimizer = inner(optimizer)
    return tuple(getattr(optimizer, name, None) for name in CLIP_OPTIONS)
