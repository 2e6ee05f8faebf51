"""What the gradients by layer outputs and inputs must be, had from a twin model.

In the twin a weight that is zero, with an entry for each entry of a batch, is added to the output. The derivative of the loss
by the output is the one by that weight, and that is what training subtracts from it.
"""
import reference
import support
from support import Model, keras, layers


def _shift_layer():
    class Shift(layers.Layer):
        """Adds a weight of the shape of a whole batch."""

        def __init__(self, batch_shape, **options):
            super(Shift, self).__init__(**options)
            self.sizes = batch_shape
            self.supports_masking = True

        def build(self, input_shape):
            self.shift = self.add_weight(name="shift", shape=self.sizes, initializer=keras.initializers.Zeros(), trainable=True)
            super(Shift, self).build(input_shape)

        def call(self, inputs):
            return inputs + self.shift

        def compute_output_shape(self, input_shape):
            return input_shape

    return Shift


class Plain(object):
    """Given to a function that builds a model; notes the outputs that it is called on.

    Called with the shape of a sample as well where the tensor itself may not know it.
    """

    def __init__(self):
        self.seen = []

    def __call__(self, tensor, *shape):
        self.seen.append(tensor)
        return tensor


class Shifted(object):
    """Shifts the outputs that it is called on, for batches of ``rows`` samples; notes the layers that do."""

    def __init__(self, rows):
        self.seen = []
        self._rows, self._class = rows, _shift_layer()

    def __call__(self, tensor, *shape):
        shape = shape or tuple(int(size) for size in list(tensor.shape)[1:])
        self.seen.append(self._class((self._rows,) + shape))
        return self.seen[-1](tensor)


def pair(build, rows, loss="mse", **options):
    """``(model, tensors, twin, layers)``: two compiled models with equal weights, what ``build`` saw, what shifts it.

    Arguments:
        build: function from a ``Plain`` or ``Shifted`` to (inputs, outputs) of a functional model.
        options: for ``compile``.
    """
    plain, shifted = Plain(), Shifted(rows)
    model, twin = [support.compile(Model(*build(see)), loss, **options) for see in (plain, shifted)]
    support.set_weights(model)
    shifts = set(map(id, shifted.seen))
    ours, theirs = ([layer for layer in _leaves(one) if id(layer) not in shifts] for one in (model, twin))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        other.set_weights(one.get_weights())
    return model, plain.seen, twin, shifted.seen


def _leaves(model):
    return [layer for layer in support.all_layers(model) if not hasattr(layer, "layers") and layer.weights]


def gradients(twin, shift_layers, x, y, sample_weight=None):
    """The derivatives of the training loss by what each layer shifts, as a list of arrays."""
    found = reference.training_gradient(twin, x, y, sample_weight)
    places = {id(weight): place for place, weight in enumerate(twin.trainable_weights)}
    return [found[places[id(layer.shift)]] for layer in shift_layers]
