"""Gradients through loops and conditionals that a session has seen: TensorFlow 2.5 and later in graph mode.

There the gradient of a loop adds outputs to the loop itself. A session that has seen the loop without them, be it to set
some weights, can run nothing in that graph any more. Keras's training has the same flaw: after such a run ``train_on_batch``
of a recurrent model breaks the graph. A copy of the loss that no session has seen can be differentiated nevertheless.
"""
from .graph import ancestors, building, is_placeholder

# Their gradients change the operation itself.
REWRITTEN = (
    "While",
    "StatelessWhile",
    "If",
    "StatelessIf",
    "Case",
    "StatelessCase",
    "PartitionedCall",
    "StatefulPartitionedCall",
)


def unseen(tf, total, variables):
    """``(total, function)``, the total or a copy of it if it depends on a loop that a session of Keras has seen.

    Arguments:
        tf: the version 1 API of TensorFlow.
        variables: some of the variables ``total`` depends on.

    The function gives, for a tensor that ``total`` depends on, the one that its copy depends on.
    """
    operations = ancestors(total)
    loops = [operation for operation in operations if operation.type in REWRITTEN]
    if loops and _seen(total.graph, loops, variables):
        return _copy(tf, total, operations)
    return total, lambda tensor: tensor


def _seen(graph, loops, variables):
    # Keras's first run after variables were made asks whether they are initialized, with operations made for it. A loop comes
    # after its variables, unless a layer is called once more.
    if all(getattr(variable, "_keras_initialized", False) for variable in variables):
        return True
    loops, passed = set(loops), False
    for operation in graph.get_operations():  # in the order they were made
        passed = passed or operation in loops
        # Each variable has such an operation of its own, too.
        if passed and operation.type == "VarIsInitializedOp" and not operation.name.endswith("/IsInitialized/VarIsInitializedOp"):
            return True
    return False


def _copy(tf, total, operations):
    """A tensor equal to ``total`` from new operations on the same placeholders and variables, and where it has the others."""
    copied = [operation for operation in operations if not _is_source(operation)]
    names = set(operation.name for operation in copied)
    definition = tf.GraphDef()
    definition.versions.CopyFrom(total.graph.graph_def_versions)
    for operation in copied:
        node = definition.node.add()
        node.CopyFrom(operation.node_def)
        node.attr.pop("_class", None)  # to be placed with an operation that may have been left out
        inputs = [name for name in node.input if not name.startswith("^") or name[1:] in names]
        del node.input[:]
        node.input.extend(inputs)
    sources = {
        tensor.name: tensor for operation in copied for tensor in operation.inputs if tensor.op.name not in names
    }
    with building(total.graph):
        copy = tf.import_graph_def(definition, input_map=sources, return_elements=[total.name], name="loss")[0]
    prefix = copy.name[: -len(total.name)]
    return copy, lambda tensor: total.graph.get_tensor_by_name(prefix + tensor.name) if tensor.op.name in names else tensor


def _is_source(operation):
    """Feeds, constants, variables and other resources are shared with the original."""
    if is_placeholder(operation) or operation.type == "Const":
        return True
    return not operation.inputs and any(tensor.dtype.name.startswith("resource") for tensor in operation.outputs)
