"""Rewriting code: what it becomes computes the reference gradient, what cannot be rewritten stays as it is and is reported."""
import json

import numpy as np
import pytest

import migrate_variants as variants

variants.require_libcst()

import models
import reference
from processes import python
from support import TF, Version, assert_close, sgd
from tfgradcompat.migrate import private
from tfgradcompat.migrate.rewriting import rewrite
from tfgradcompat.registry.locations import known_symbols

pytestmark = pytest.mark.once_per_python

OLD = ("total_loss", "_feed", "_standardize", "K.function", ".sample_weights", "see_rnn", "keract")
SAMPLE_WEIGHT = np.array([0.5, 2.0, 1.0, 3.0], "float32")


def rewritten(source):
    """What ``source`` becomes; it must be all of it, and stay so."""
    result = rewrite(source)
    assert result.before == [] == result.after
    assert [word for word in OLD if word in result.text] == []
    again = rewrite(result.text)
    assert again.text == result.text and again.plans == []
    return result.text


def defined(source, **names):
    """The function ``gradients`` of rewritten code."""
    namespace = dict(names)
    exec(compile(rewritten(source), "<rewritten>", "exec"), namespace)
    return namespace["gradients"]


# -- what rewritten code computes


@pytest.mark.parametrize("name", sorted(variants.WEIGHTED))
def test_weighted(name):
    model, batch = models.dense()
    expected = reference.training_gradient(model, sample_weight=SAMPLE_WEIGHT, **batch)
    results = defined(variants.WEIGHTED[name])(model, batch["x"], batch["y"], SAMPLE_WEIGHT)
    assert isinstance(results, list)
    assert_close(results, expected)


def test_placeholders_in_another_order():
    model, batch = models.dense()
    expected = reference.training_gradient(model, sample_weight=SAMPLE_WEIGHT, **batch)
    assert_close(defined(variants.PLACEHOLDERS)(model, batch["x"], batch["y"], SAMPLE_WEIGHT), expected)


def test_module_level():
    model, batch = models.dense()
    expected = reference.training_gradient(model, sample_weight=SAMPLE_WEIGHT, **batch)
    assert_close(defined(variants.MODULE_LEVEL, model=model, sample_weight=SAMPLE_WEIGHT, **batch)(), expected)


def test_samples_spelled_out_as_lists():
    model, batch = models.dense()
    expected = reference.training_gradient(model, **batch)
    assert_close(defined(variants.SINGLE_SAMPLES)(model, batch["x"], batch["y"], None), expected)


def test_phases():
    model, batch = models.batch_norm(rate=None)
    batch["sample_weight"] = SAMPLE_WEIGHT
    training = reference.training_gradient(model, **batch)
    inference = reference.finite_differences(model, **batch)
    results = defined(variants.PHASES)(model, **batch)
    assert_close(results[0], inference, 1e-3, 1e-4)
    assert_close(results[1], training)
    assert_close(results[2], inference, 1e-3, 1e-4)
    assert max(np.max(np.abs(one - other)) for one, other in zip(results[0], results[1])) > 0.1


def test_layer_output():
    model, batch = models.dense()
    output = model.predict(batch["x"], verbose=0)
    results = defined(variants.LAYER_OUTPUT)(model, batch["x"], batch["y"])
    # The mean squared error's own derivative.
    assert len(results) == 1
    assert_close(results[0], 2 * (output - batch["y"]) / output.size)


def test_clipping():
    raw = reference.training_gradient(*_with_batch(models.dense()))
    clipped = reference.training_gradient(*_with_batch(models.dense(sgd(clipnorm=0.05))))
    model, batch = models.dense(sgd(clipnorm=0.05))
    for name, expected in (("backend gradients", raw), ("canonical", clipped)):
        source = variants.WEIGHTED[name]
        assert_close(defined(source)(model, batch["x"], batch["y"], np.ones(4)), expected)
    assert max(np.max(np.abs(raw[place] - clipped[place])) for place in raw) > 0.01


def _with_batch(pair):
    model, batch = pair
    return model, batch["x"], batch["y"]


def test_input():
    model, batch = models.linear()
    output = model.predict(batch["x"], verbose=0)
    slope = 2 * (output - batch["y"]) / output.size
    expected = slope.dot(model.get_layer("out").get_weights()[0].T)
    by_input, both = defined(variants.INPUT)(model, **batch)
    assert [len(by_input), len(both)] == [1, 2]
    assert_close(by_input[0], expected)
    assert_close(both[0], expected)
    assert_close(both[1], slope)


def test_two_inputs_and_outputs():
    model, batch = models.two_by_two()
    weights = [SAMPLE_WEIGHT, SAMPLE_WEIGHT[::-1].copy()]
    expected = reference.training_gradient(model, sample_weight=weights, **batch)
    assert_close(defined(variants.MULTIPLE)(model, *(batch["x"] + batch["y"] + weights)), expected)


def test_class_weight():
    model, batch = models.classes()
    weights = {0: 0.5, 1: 2.0, 2: 3.0}
    expected = reference.training_gradient(model, class_weight=weights, **batch)
    assert_close(defined(variants.CLASS_WEIGHT)(model, batch["x"], batch["y"], weights), expected)


@pytest.mark.parametrize("name", sorted(variants.LIBRARIES))
def test_libraries(name):
    source, kind = variants.LIBRARIES[name]
    weight = None if name == "keract" else SAMPLE_WEIGHT
    model, batch = models.dense()
    expected = reference.training_gradient(model, **dict(batch, **reference.given(sample_weight=weight)))
    results = defined(source)(model, batch["x"], batch["y"], weight)
    assert isinstance(results, kind)
    if kind is dict:
        # The names that the library uses, as the weights have them.
        names = [getattr(weight, "path", weight.name) for weight in model.trainable_weights]
        assert list(results) == names
        results = list(results.values())
    assert_close(results, expected)


@pytest.mark.parametrize(
    "arguments, keys", [("", None), (", layer_names='out'", ["out"]), (", layer_name=['hidden', 'out']", ["hidden", "out"])]
)
def test_activations_of_keract(arguments, keys):
    source = "import keract\n\n\ndef gradients(model, x, y):\n    return keract.get_gradients_of_activations(model, x, y%s)\n"
    model, batch = models.dense()
    results = defined(source % arguments)(model, **batch)
    assert sorted(results) == sorted(keys or [layer.name for layer in model.layers])
    output = model.predict(batch["x"], verbose=0)
    slope = 2 * (output - batch["y"]) / output.size
    assert_close(results["out"], slope)
    if "hidden" in results:
        assert_close(results["hidden"], slope.dot(model.get_layer("out").get_weights()[0].T))


def test_layer_output_of_see_rnn():
    source = "import see_rnn\n\n\ndef gradients(model, x, y):\n    return see_rnn.get_gradients(model, 1, x, y)\n"
    model, batch = models.dense()
    output = model.predict(batch["x"], verbose=0)
    slope = 2 * (output - batch["y"]) / output.size
    assert_close(defined(source)(model, **batch), slope.dot(model.get_layer("out").get_weights()[0].T))


# The old code and the new one in one process, where sessions still run the old one.
BOTH = """
import json, sys
import numpy as np
import models, support

with open(sys.argv[1]) as stream:
    sources = json.load(stream)
weight = np.array([0.5, 2.0, 1.0, 3.0], "float32")
ran = []
for name, (old, new) in sources.items():
    support.clear()
    model, batch = models.dense()
    model.train_on_batch(batch["x"], batch["y"], sample_weight=weight)  # makes the placeholders of weights
    results = []
    for source in (old, new):
        namespace = dict(batch, model=model, sample_weight=weight)
        exec(source, namespace)
        results.append(namespace["gradients"](model, batch["x"], batch["y"], weight))
    old, new = results
    assert type(old) is type(new), (name, type(old), type(new))
    assert len(old) == len(new), name
    assert max(np.max(np.abs(one)) for one in old) > 0.01, name
    for one, other in zip(old, new):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6, err_msg=name)
    ran.append(name)
print(json.dumps(ran))
"""


def test_old_and_new_agree_where_the_old_one_runs(tmp_path):
    sources = dict(variants.WEIGHTED, **{"module level": variants.MODULE_LEVEL})
    both = {name: (source, rewritten(source)) for name, source in sources.items()}
    path = tmp_path / "sources.json"
    path.write_text(json.dumps(both))
    flavour = "tf.keras" if TF < Version("2.16") else "tf_keras"
    code, output, errors = python(
        "-c",
        BOTH,
        str(path),
        TFGRADCOMPAT_FLAVOUR=flavour,
        TFGRADCOMPAT_MODE="graph",
        TF_USE_LEGACY_KERAS="1" if flavour == "tf_keras" else "0",
    )
    assert code == 0, errors[-3000:]
    assert sorted(json.loads(output.splitlines()[-1])) == sorted(both)


# -- what code looks like afterwards


def test_comments_and_formatting_survive():
    source = '''\
"""A module."""
from keras import backend as K  # the backend
from keras.models import load_model
import numpy as np


def f( model,x , y ):   # odd spacing
    w = {'a':1,
         "b" : 2}       # kept
    # the gradients
    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)  # symbolic

    # the function
    fn = K.function([model.inputs[0],  # one
                     model.targets[0]], grads)
    g = fn([x, y]) ; print( g )  # evaluated
    return g,w
'''
    expected = '''\
"""A module."""
# the backend
from keras.models import load_model
import numpy as np
from tfgradcompat import get_gradients


def f( model,x , y ):   # odd spacing
    w = {'a':1,
         "b" : 2}       # kept
    # the gradients
    # symbolic

    # the function
    # one
    g = get_gradients(model, x, y) ; print( g )  # evaluated
    return g,w
'''
    assert rewritten(source) == expected


def test_a_function_that_is_made_once_and_used_often():
    text = rewritten(variants.WEIGHTED["several calls"])
    assert "from tfgradcompat import gradient_function\n" in text
    assert "fn = gradient_function(model, params=weights)\n" in text
    assert "results.append(fn(x, y, sample_weight=sample_weight, learning_phase=phase))" in text


def test_gradients_without_an_optimizer_are_not_clipped():
    assert "clip=False" in rewritten(variants.WEIGHTED["backend gradients"])
    assert "clip" not in rewritten(variants.WEIGHTED["canonical"])


def test_a_clipping_optimizer_is_worth_a_note():
    source = variants.WEIGHTED["canonical"] + "\noptimizer = SGD(clipnorm=1.0)\n"
    assert "clips as this version's training does" in rewrite(source).plans[0].notes[0]
    assert rewrite(variants.WEIGHTED["canonical"]).plans[0].notes == []


def test_a_taken_name_is_not_imported():
    text = rewritten(variants.WEIGHTED["method and helper of the same name"])
    assert "import tfgradcompat\n" in text and "return tfgradcompat.get_gradients(model, x, y" in text
    assert "return get_gradients(model, x, y, sample_weight)\n" in text


def test_imports_that_are_used_stay():
    source = variants.WEIGHTED["canonical"]
    assert "backend" not in rewritten(source)
    assert "backend as K\n" in rewritten(source + "\n\nK.clear_session()\n")
    assert "backend as K\n" in rewritten(source.replace("import numpy", "__all__ = ['K']\nimport numpy"))
    assert "import numpy as np\n" in rewritten(source), "never used, but not by this either"


@pytest.mark.parametrize(
    "head, place",
    [
        ("", 0),
        ('"""Doc."""\n', 1),
        ("#!/usr/bin/env python\n# a comment\nimport os\nfrom __future__ import division\n", 4),
        ("try:\n    import cPickle\nexcept ImportError:\n    import pickle\n", 4),
        ("import os\nos.environ['A'] = '1'\nimport sys\n", 1),
    ],
)
def test_the_import_follows_the_imports_at_the_head(head, place):
    code = "def f(model, x, y, w):\n" + "".join(
        "    " + line + "\n"
        for line in (
            "from keras import backend as K",
            "g = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)",
            "return K.function(model.inputs + model._feed_targets + model._feed_sample_weights, g)([x, y, w])",
        )
    )
    lines = rewritten(head + code).splitlines()
    assert (
        lines[place] == "from tfgradcompat import get_gradients" or lines[place + 1] == "from tfgradcompat import get_gradients"
    )
    assert sum("tfgradcompat" in line for line in lines) == 1


def test_long_calls_are_folded():
    source = variants.HEAD + """
class A(object):
    def gradients(self, x, y, weights_of_samples):
        grads = self.network.optimizer.get_gradients(self.network.total_loss, self.network.layers[-1].weights)
        inputs = self.network.inputs + self.network._feed_targets + self.network._feed_sample_weights
        fn = K.function(inputs + [K.learning_phase()], grads)
        return fn([x, y, weights_of_samples, 0])
"""
    expected = """
        return get_gradients(
            self.network,
            x,
            y,
            params=self.network.layers[-1].weights,
            sample_weight=weights_of_samples,
            learning_phase=0,
        )
"""
    assert expected in rewritten(source)


def test_what_stood_around_removed_statements():
    source = variants.HEAD + """
def gradients(model, x, y, w):
    before = 1

    grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)

    fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights, grads); result = fn([x, y, w])
    if result: after = 2

    return result
"""
    assert """
    before = 1

    result = get_gradients(model, x, y, sample_weight=w)
    if result: after = 2

    return result
""" in rewritten(source)


def test_comments_within_calls_survive():
    source = variants.HEAD + """
def gradients(model, x, y, w):
    grads = model.optimizer.get_gradients(model.total_loss, model.weights)
    fn = K.function(
        model.inputs + model._feed_targets + model._feed_sample_weights,  # fed
        grads  # fetched
    )
    if fn([x,  # images
           y, w])[0] is not None:  # always
        # nothing
        pass
    return fn([x, y,  # labels
               w])  # the end
"""
    expected = """
    # fed
    # fetched
    fn = gradient_function(model, params=model.weights)
    # images
    if fn(x, y, sample_weight=w)[0] is not None:  # always
        # nothing
        pass
    # labels
    return fn(x, y, sample_weight=w)  # the end
"""
    assert expected in rewritten(source)


def test_code_that_uses_the_package_already():
    body = variants.WEIGHTED["canonical"].replace(variants.HEAD, "")
    for line, call in (
        ("from tfgradcompat import get_gradients", "get_gradients"),
        ("from tfgradcompat import describe", "get_gradients"),
        ("import tfgradcompat", "tfgradcompat.get_gradients"),
        ("def other():\n    import tfgradcompat\n    tfgradcompat.describe()", "get_gradients"),
        ("def other():\n    from tfgradcompat import get_gradients", "tfgradcompat.get_gradients"),
    ):
        source = "from keras import backend as K\n" + line + "\n\n\n" + body
        text = rewritten(source)
        assert "return %s(model, x, y" % call in text
        namespace = {}
        exec(compile(text, "<rewritten>", "exec"), namespace)
        assert call.partition(".")[0] in namespace


def test_calls_in_strings_stay_on_their_line():
    source = variants.HEAD + """
def gradients(network, x, y, sample_weight):
    grads = network.optimizer.get_gradients(network.total_loss, network.layers[0].trainable_weights)
    fn = K.function(network.inputs + network._feed_targets + network._feed_sample_weights, grads)
    return f"a rather long text before what is computed here {fn([x, y, sample_weight])[0]} and after"
"""
    assert (
        "{get_gradients(network, x, y, params=network.layers[0].trainable_weights, sample_weight=sample_weight)[0]}"
        in rewritten(source)
    )


def test_params_of_unknown_shape_stay_a_list():
    text = rewritten(variants.WEIGHTED["any params"])
    assert "params=list(params) if isinstance(params, (list, tuple)) else [params]" in text
    own = variants.WEIGHTED["any params"].replace("params)", "self.weights)", 1)
    assert "[self.weights]" in rewritten(own)
    assert "params=params, " in rewritten(variants.WEIGHTED["inputs in two steps"])


def test_a_statement_alone_in_its_block_leaves_a_block():
    source = variants.HEAD + """
def gradients(model, x, y, w):
    with K.name_scope("g"):
        grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)
    fn = K.function(model.inputs + model._feed_targets + model._feed_sample_weights, grads)
    return fn([x, y, w])
"""
    text = rewrite(source).text
    assert 'with K.name_scope("g"):\n        pass\n' in text
    compile(text, "<rewritten>", "exec")


# -- what is left alone

GRADS = "grads = model.optimizer.get_gradients(model.total_loss, model.trainable_weights)\n"
FN = "fn = K.function(%s, grads)\n" % variants.FEEDS

LEFT = {
    "another derivative": (
        "g = K.gradients(model.output[:, 3], model.input)[0]\nfn = K.function([model.input], [g])\nfn([x])\n",
        "something else than the training loss",
        "gradients_of",
    ),
    "gradient norm": (
        "grads = K.gradients(model.total_loss, model.trainable_weights)\n"
        "norm = K.sqrt(sum([K.sum(K.square(g)) for g in grads]))\n"
        "fn = K.function(model._feed_inputs + model._feed_targets + model._feed_sample_weights, [norm])\n"
        "fn([x, y, w])\n",
        "norms, concatenations",
        "NumPy",
    ),
    "concatenation": (
        GRADS + "flat = tf.concat([tf.reshape(g, [-1]) for g in grads], 0)\nfn = K.function(%s, [flat])\n" % variants.FEEDS,
        "norms, concatenations",
        "NumPy",
    ),
    "second derivatives": (
        "for i in range(3):\n    h = tf.gradients(K.gradients(model.total_loss, w)[0][i], w)\n",
        "in a loop",
        "get_gradients",
    ),
    "updates": (
        GRADS + "fn = K.function(%s, grads, updates=model.updates)\nfn([x, y, w, 0])\n" % variants.FEEDS,
        "updates=",
        "tfgradcompat.g",
    ),
    "get_updates": (
        "updates = model.optimizer.get_updates(params=model.trainable_weights, loss=model.total_loss)\n",
        "get_updates",
        "train_on_batch",
    ),
    "feed dict": (
        GRADS + "K.get_session().run(grads, feed_dict={model.inputs[0]: x, model.targets[0]: y})\n",
        "session run",
        "tfgradcompat.feed_dict",
    ),
    "placeholders in a feed dict": ("feed = {model._feed_targets[0]: y}\n", "a feed dict", "tfgradcompat.feed_dict"),
    "returned": (
        "def make(model):\n    " + GRADS + "    return K.function(%s, grads)\n" % variants.FEEDS,
        "returned",
        "gradient_function",
    ),
    "returned by name": (
        "def make(model):\n    " + GRADS + "    " + FN + "    return fn\n",
        "used otherwise than called",
        "gradient_function",
    ),
    "kept as an attribute": (
        GRADS + "self.fn = K.function(%s, grads)\n" % variants.FEEDS,
        "kept as self.fn",
        "gradient_function",
    ),
    "one call of two is unclear": (GRADS + FN + "a = fn([x, y, w, 0])\nb = fn(batch)\n", "not spelled out", "gradient_function"),
    "gradients used otherwise": (GRADS + FN + "a = fn([x, y, w, 0])\nprint(len(grads))\n", "also used in line", "NumPy"),
    "inputs used otherwise": (
        GRADS + "ins = %s\nfn = K.function(ins, grads)\na = fn([x, y, w, 0])\nmake(ins)\n" % variants.FEEDS,
        "also used in line",
        "tfgradcompat.g",
    ),
    "the loss as well": (
        GRADS + "fn = K.function(%s, [model.total_loss] + grads)\nfn([x, y, w, 0])\n" % variants.FEEDS,
        "",
        "value_and_gradients",
    ),
    "two models": (
        GRADS + FN.replace("model.inputs", "other.inputs") + "fn([x, y, w, 0])\n",
        "of the same model",
        "tfgradcompat.g",
    ),
    "another optimizer": (
        "grads = SGD().get_gradients(model.total_loss, model.trainable_weights)\n" + FN + "fn([x, y, w, 0])\n",
        "clip differently",
        "tfgradcompat.g",
    ),
    "two inputs or a weight": (GRADS + FN + "fn([a, b, c, 0])\n", "cannot be told", "tfgradcompat.g"),
    "another model by then": (GRADS + "model = other\n" + FN + "fn([x, y, w, 0])\n", "of the same model", "tfgradcompat.g"),
    "a loop changes the model": (
        "for _ in range(2):\n    model = make()\n    if x: " + GRADS.rstrip() + "\n    " + FN + "    fn([x, y, w, 0])\n",
        "in a loop",
        "get_gradients",
    ),
    "compiled in between": (GRADS + FN + "model.compile('sgd', 'mse')\nfn([x, y, w, 0])\n", "compiled anew", "tfgradcompat.g"),
    "global phase": (
        "K.set_learning_phase(1)\n" + GRADS + FN.replace(" + [K.learning_phase()]", "") + "fn([x, y, w])\n",
        "learning phase",
        "tfgradcompat.g",
    ),
    "odd phase": (GRADS + FN + "fn([x, y, w, 0.5])\n", "neither 0 nor 1", "tfgradcompat.g"),
    "defined twice": (
        "if a:\n    " + GRADS + "else:\n    " + GRADS.replace("trainable_weights", "weights") + FN + "fn([x, y, w, 0])\n",
        "",
        "get_gradients",
    ),
    "a computed batch": (
        GRADS + FN + "batch = [load(), y, w, 0]\nfor i in z:\n    fn(batch)\n",
        "computed earlier",
        "gradient_function",
    ),
    "the batch changes": (GRADS + FN + "batch = [x, y, w, 0]\nx = 1\nfn(batch)\n", "may be another one", "tfgradcompat.g"),
    "weights prepared, not fed": (
        GRADS + "fn = K.function(model._feed_inputs + model._feed_targets, grads)\n"
        "a, b, c = model._standardize_user_data(x, y, w)\nfn(a + b)\n",
        "prepared but not fed",
        "tfgradcompat.g",
    ),
    "prepared data used again": (
        GRADS + "fn = K.function(model._feed_inputs + model._feed_targets + model._feed_sample_weights, grads)\n"
        "a, b, c = model._standardize_user_data(x, y, w)\nfn(a + b + c)\nprint(a)\n",
        "also used in line",
        "tfgradcompat.g",
    ),
    "prepared for another model": (
        GRADS + "fn = K.function(model._feed_inputs + model._feed_targets + model._feed_sample_weights, grads)\n"
        "a, b, c = other._standardize_user_data(x, y, w)\nfn(a + b + c)\n",
        "for the same model",
        "tfgradcompat.g",
    ),
    "inputs grow under a condition": (
        GRADS + "ins = model.inputs + model._feed_targets + model._feed_sample_weights\n"
        "if x:\n    ins += [K.learning_phase()]\nfn = K.function(ins, grads)\nfn([x, y, w, 0])\n",
        "fed something else",
        "tfgradcompat.g",
    ),
    "compiled after a call in a loop": (
        GRADS + FN + "for _ in z:\n    fn([x, y, w, 0])\n    model.compile('sgd', 'mse')\n",
        "compiled anew",
        "gradient_function",
    ),
    "compiled between calls from a function": (
        "def step(x):\n    return fn([x, y, w, 0])\n" + GRADS + FN + "step(a)\nmodel.compile('sgd', 'mse')\nstep(a)\n",
        "compiled anew",
        "gradient_function",
    ),
    "the batch changes in place": (
        GRADS + FN + "batch = [x / 255, y, w, 0]\nx[0] = 1\nfn(batch)\n",
        "may be another one",
        "tfgradcompat.g",
    ),
    "a random batch": (
        GRADS + FN + "import numpy as np\nbatch = [np.random.rand(3), y, w, 0]\nfn(batch)\nfn(batch)\n",
        "computed earlier",
        "gradient_function",
    ),
    "phase of a phase": (GRADS + FN + "fn([x, y, w, K.learning_phase()])\n", "neither 0 nor 1", "tfgradcompat.g"),
    "another order of computing": (
        GRADS
        + "fn = K.function([model.inputs[0], model.sample_weights[0], model.targets[0]], grads)\n"
        + "fn([next(d), next(d), next(d)])\n",
        "in another order",
        "tfgradcompat.g",
    ),
    "another model between loss and gradients": (
        "loss = model.total_loss\nfor model in zs:\n    pass\ngrads = model.optimizer.get_gradients(loss, [w])\n"
        + FN
        + "fn([x, y, w, 0])\n",
        "may be another one",
        "tfgradcompat.g",
    ),
    "another model between placeholders and gradients": (
        "ins = %s\nfor model in zs:\n    pass\n" % variants.FEEDS + GRADS + "fn = K.function(ins, grads)\nfn([x, y, w, 0])\n",
        "may be another one",
        "tfgradcompat.g",
    ),
    "data of another model": (
        "with a as model:\n    X, Y, W = model._standardize_user_data(x, y)\nwith b as model:\n    "
        + GRADS
        + "    fn = K.function(model._feed_inputs + model._feed_targets + model._feed_sample_weights, grads)\n    fn(X + Y + W)\n",
        "may be another one",
        "tfgradcompat.g",
    ),
    "the loss as a default": ("def f(loss=model.total_loss):\n    pass\n", "symbolic total loss", "value_and_gradients"),
    "exported": ("__all__ = ['fn']\n" + GRADS + FN + "fn([x, y, w, 0])\n", "in __all__", "gradient_function"),
    "see-rnn by part of a name": (
        "from see_rnn import get_gradients\nget_gradients(model, 'lstm', x, y)\n",
        "contains the text",
        "select",
    ),
    "keract, nested": (
        "import keract\nkeract.get_gradients_of_activations(model, x, y, nested=True)\n",
        "within layers",
        "as_dict=True",
    ),
    "private TensorFlow": (
        "from tensorflow.python.keras.engine import data_adapter\n",
        "private",
        "tfgradcompat.locate('data_adapter', model)",
    ),
    "a copy of the training step": (
        "def _get_grads_eager(model, x, y, params):\n    pass\n",
        "private training step",
        "get_gradients",
    ),
    "calls of that": (
        "from mine import _get_grads_eager\n_get_grads_eager(model, x, y, params)\n",
        "calls the helper",
        "get_gradients",
    ),
}


@pytest.mark.parametrize("name", sorted(LEFT))
def test_left_alone_with_a_reason(name):
    body, reason, advice = LEFT[name]
    source = "import tensorflow as tf\nfrom keras import backend as K\n" + body
    compile(source, "<old>", "exec")
    result = rewrite(source)
    assert result.text == source
    assert result.plans == []
    assert any(reason in one.reason and advice in one.advice for one in result.before), result.before
    lines = source.splitlines()
    assert all(lines[one.line - 1].strip() for one in result.before)
    assert all("tfgradcompat" in one.advice or "train_on_batch" in one.advice for one in result.before)


def test_what_is_advised_to_locate_is_known():
    assert set(private.SYMBOLS.values()) <= set(known_symbols())


def test_what_shares_with_something_left_is_left_too():
    body = (
        "ins = %s\n" % variants.FEEDS
        + GRADS
        + "fn = K.function(ins, grads)\na = fn([x, y, w, 0])\n"
        + "others = K.gradients(model.total_loss, model.weights)\nother = K.function(ins, others)\nb = other(unclear)\n"
    )
    source = "from keras import backend as K\n" + body
    result = rewrite(source)
    assert result.text == source and len(result.before) == 2
    # Where it is clear, both are rewritten.
    text = rewritten(source.replace("unclear", "[x, y, w, 1]"))
    assert text.count("get_gradients(model, x, y, ") == 2


def test_unrelated_code_is_no_concern():
    source = (
        "import keras.backend as K\nfrom tensorflow.python.client import device_lib\n"
        "import tensorflow as tf\nf = K.function([model.input], [model.output])\ng = tf.gradients(model.output, model.input)\n"
        "def get_gradients(a, b):\n    return a\nself.total = loss\n"
    )
    result = rewrite(source)
    assert (result.text, result.plans, result.before) == (source, [], [])
