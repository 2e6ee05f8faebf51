"""Private modules of TensorFlow that copies of Keras's training step import, and the helpers made of them."""
import re

import libcst as cst

from .calls import ADVICE, Leftover

# What such code imports -> what ``locate`` knows it, or the class in it, as.
SYMBOLS = {
    "data_adapter": "data_adapter",
    "loss_scale_optimizer": "LossScaleOptimizer",
    "LossScaleOptimizer": "LossScaleOptimizer",
    "parameter_server_strategy": "ParameterServerStrategyExtended",
    "training_eager": "training_eager",
    "training_v2_utils": "training_v2_utils",
}
HELPERS = re.compile(r"(^|\.)_get_grads_eager$|^see_rnn\..*_(get_grads\w*|make_grads_fn)$")
SAME = "tfgradcompat.get_gradients, which takes (model, x, y, params, sample_weight, learning_phase) as well"


def find(names):
    """Yield (None, leftover, nodes) for each import, each helper, and each call of one."""
    for node in names.nodes:
        if isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar) and node.module:
            for alias in node.names:
                leftover = _of_import(names, node, alias)
                if leftover is not None:
                    yield None, leftover, [node]
        elif isinstance(node, cst.FunctionDef) and node.name.value == "_get_grads_eager":
            yield None, Leftover(names.line(node), "a copy of TensorFlow's private training step", SAME), [node]
        elif isinstance(node, cst.Call) and HELPERS.search(names.qualified(node.func)):
            reason = "calls the helper %s" % names.code(node.func).strip()
            yield None, Leftover(names.line(node), reason, SAME), [node]


def _of_import(names, node, alias):
    path = names.code(node.module).strip() + "." + names.code(alias.name).strip()
    last = path.rpartition(".")[2]
    if last not in SYMBOLS or not path.startswith("tensorflow.python."):
        return None
    advice = ADVICE + ", or tfgradcompat.locate(%r, model) for what serves a model" % SYMBOLS[last]
    return Leftover(names.line(node), "imports %s, which is private to some versions of TensorFlow" % path, advice)
