"""What of a module can be rewritten with certainty, and what is left over, with the reason."""
import re

import libcst as cst

from . import batches, libraries, private
from .calls import ADVICE, FUNCTION, GET, Leftover, Plan, arguments_of, call_of, keyword, leading, trailing
from .idioms import PHASE, Doubt, Reader, arguments, is_none, is_total_loss, shape, shortened
from .names import Names, dotted, exported

REUSED = "tfgradcompat.gradient_function(model, params=...), called with (x, y, sample_weight=..., learning_phase=...)"
VALUE = "tfgradcompat.value_and_gradients(model, x, y, params=..., sample_weight=..., learning_phase=...)"
FED = ADVICE + ", or evaluate=False with tfgradcompat.feed_dict"
NUMERIC = ADVICE + ", and NumPy for what is computed from the gradients (tfgradcompat.gradient_norms for norms)"
OF = "tfgradcompat.gradients_of(model, x, of=..., params=..., learning_phase=...)"


class Group(object):
    """One Keras function of gradients, from the gradients to the calls."""

    def __init__(self, call, gradients, reader):
        self.call, self.gradients, self.reader = call, gradients, reader
        self.calls, self.batches, self.bound = [], [], None
        self.doubt = None


class Analysis(object):
    """What was found in one module.

    Arguments:
        outside: function from a name of the module to where else it is imported from there, or ``None``.

    Attributes:
        plans: the ``Plan``s that can be carried out.
        leftovers: ``Leftover``s, in order.
    """

    def __init__(self, module, outside=lambda name: None):
        self.names = Names(module)
        self._outside = outside
        self.plans, self.leftovers = [], []
        self._explained = set()  # statements that are part of something which is reported, or rewritten
        self._text = module.code
        self._lines = self._text.splitlines()
        self._groups = self._find_groups()
        self._settle()
        for group in self._groups:
            self._conclude(group)
        for plan, leftover, nodes in libraries.find(self.names):
            self._take(plan, leftover, nodes)
        for plan, leftover, nodes in private.find(self.names):
            self._take(plan, leftover, nodes)
        self._explain_the_rest()
        self.leftovers.sort()

    def _take(self, plan, leftover, nodes):
        self._explained.update(self.names.statement(node) for node in nodes)
        if plan is not None:
            self.plans.append(plan)
        if leftover is not None:
            self.leftovers.append(leftover)

    # -- groups

    def _find_groups(self):
        found = []
        for node in self.names.nodes:
            reader = Reader(self.names)
            if not reader.is_function(node):
                continue
            given = arguments(node, ("inputs", "outputs", "updates", "name"))
            gradients, doubt = None, None
            try:
                outputs = None if given is None else given.get("outputs")
                source = None if outputs is None else reader.resolve(outputs)
                gradients = source if source is None else reader.gradients(source)
            except Doubt as caught:
                doubt = caught
            if gradients is None and doubt is None:
                continue
            group = Group(node, gradients, reader)
            group.doubt = doubt or _attempt(self._read, group, given)
            found.append(group)
        return found

    def _read(self, group, given):
        reader, names, model = group.reader, self.names, group.gradients.model
        if not all(is_none(given.get(name)) or _is_empty(given[name]) for name in ("updates",)):
            raise Doubt("it has updates=, which change the model as it runs")
        if set(given) - {"inputs", "outputs", "updates", "name"}:
            raise Doubt("it has arguments that no gradient needs")
        if "inputs" not in given:
            raise Doubt("what it is fed cannot be told")
        _params(names, group.gradients)
        slots = reader.slots(given["inputs"], model)
        self._find_calls(group)
        group.batches = [batches.read(reader, call, slots, model) for call in group.calls]
        if not group.calls:
            raise Doubt("it is never called here", REUSED)
        if not any(slot.kind == PHASE for slot in slots) and "set_learning_phase" in self._text:
            raise Doubt("the learning phase is not fed, and the file sets it for everything")
        self._require_stable(group)

    def _find_calls(self, group):
        names, parent = self.names, self.names.parents[group.call]
        if isinstance(parent, cst.Call) and parent.func is group.call:
            group.calls = [parent]
            return
        binding = next(
            (
                one
                for found in names.bindings.values()
                for several in found.values()
                for one in several
                if one.value is group.call
            ),
            None,
        )
        if binding is None or not isinstance(binding.node, cst.Assign):
            raise Doubt("the function is %s, and how it is called there cannot be seen" % _fate(names, parent), REUSED)
        uses = names.uses(binding)
        if uses is None:
            raise Doubt("which function %s is cannot be told everywhere" % binding.name, REUSED)
        for use in uses:
            call = names.parents[use]
            if not isinstance(call, cst.Call) or call.func is not use:
                raise Doubt("%s is also used otherwise than called, in line %d" % (binding.name, names.line(use)), REUSED)
        self._require_inside(binding)
        group.bound, group.calls = binding, [names.parents[use] for use in uses]

    def _require_inside(self, binding):
        """What other modules may use must stay as it is."""
        if self.names.scope(binding.node) is not self.names.module:
            return
        if exported(self.names, binding.name):
            raise Doubt("%s is in __all__" % binding.name, REUSED)
        place = self._outside(binding.name)
        if place is not None:
            raise Doubt("%s is also used by %s" % (binding.name, place), REUSED)

    def _require_stable(self, group):
        names, gradients = self.names, group.gradients
        site, last = self._site(group), max(group.calls, key=names.order.get)
        # What is fed directly is evaluated with the function itself.
        owners = [owner for owner in group.reader.owners if group.call not in names.ancestors_set(owner)]
        for expression in [gradients.model, gradients.params] + owners:
            end = site if names.order[expression] < names.order[site] else last
            if not names.stays(expression, expression, end):
                raise Doubt("%s may be another one by then" % shortened(names.code(expression)))
        for call, batch in zip(group.calls, group.batches):
            self._require_movable(group, call, batch)
        self._require_not_compiled(group)

    def _require_not_compiled(self, group):
        """What is compiled anew has another loss, which the old function would not have seen."""
        names, gradients = self.names, group.gradients
        first, last = names.line(gradients.call), max(names.line(call) for call in group.calls)
        between, after = ("\n".join(lines) for lines in (self._lines[first - 1 : last], self._lines[last:]))
        again = any(names.scope(call) is not names.scope(group.call) or names.loops(call) for call in group.calls)
        own = re.escape(names.code(gradients.model).strip().rpartition(".")[2]) + r"\.compile\("
        if re.search(r"(?<!\bre)\.compile\(", between) or again and re.search(r"\b" + own, after):
            raise Doubt("the model is compiled anew before the gradients are computed")

    def _require_movable(self, group, call, batch):
        """What a list or _standardize_user_data was given must mean the same where the function is called."""
        names = self.names
        for part in batch:
            if part is None:
                continue
            origin = _original(names, part)
            start = names.statement(origin)
            if start is names.statement(call):
                continue
            if not batches.simple(group.reader, batch):
                raise Doubt("what it is called with is computed earlier, in line %d" % names.line(start))
            if not names.stays(origin, origin, call):
                raise Doubt("%s may be another one by then" % shortened(names.code(origin)))

    def _single(self, group):
        """Whether the function is called once, in the block that makes it: then the facade's plain function does."""
        names = self.names
        if group.bound is None:
            return True
        if len(group.calls) != 1 or names.scope(group.calls[0]) is not names.scope(group.call):
            return False
        call, gradients = group.calls[0], group.gradients
        if _block(names, names.statement(call)) is not _block(names, names.statement(group.call)):
            return False
        if any(isinstance(one, cst.BaseComp) for one in names.ancestors(call)) or names.loops(call) - names.loops(group.call):
            return False
        between = "\n".join(self._lines[names.line(gradients.call) - 1 : names.line(call)])
        steady = all(names.stays(one, gradients.call, call) for one in (gradients.model, gradients.params))
        return steady and ".trainable" not in between.replace(".trainable_", "")

    def _site(self, group):
        return group.calls[0] if group.bound is not None and self._single(group) else group.call

    def _settle(self):
        """A group is moved only if all that it goes through is used by groups that are moved as well."""
        changed = True
        while changed:
            changed = False
            consumed = set()
            for group in self._groups:
                if group.doubt is None:
                    consumed |= group.reader.consumed
            for group in self._groups:
                if group.doubt is None:
                    group.doubt = _attempt(self._require_consumed, group, consumed)
                    changed = changed or group.doubt is not None

    def _require_consumed(self, group, consumed):
        for binding in group.reader.passed:
            self._require_inside(binding)
            uses = self.names.uses(binding)
            if uses is None:
                raise Doubt("which %s is meant cannot be told everywhere" % binding.name)
            others = [use for use in uses if use not in consumed]
            if others:
                line = self.names.line(others[0])
                advice = NUMERIC if binding.value is group.gradients.call else None
                raise Doubt("%s is also used in line %d" % (binding.name, line), advice)

    def _conclude(self, group):
        nodes = [group.call] + list(group.reader.consumed) + [binding.node for binding in group.reader.passed] + group.calls
        if group.gradients is not None:
            nodes.append(group.gradients.call)
        self._explained.update(self.names.statement(node) for node in nodes)
        if group.doubt is not None:
            advice = group.doubt.advice or (ADVICE if group.bound is None else REUSED)
            reason = "a Keras function of gradients: " + group.doubt.reason
            self.leftovers.append(Leftover(self.names.line(group.call), reason, advice))
            return
        self.plans.append(self._plan(group))

    def _plan(self, group):
        gradients, single = group.gradients, self._single(group)
        removed = set(binding.node for binding in group.reader.passed)
        common = self._common(gradients, single)
        notes = []
        replaced = {}
        if single:
            needs = {GET}
            batch = group.batches[0]
            replaced[group.calls[0]] = call_of(GET, [gradients.model] + leading(batch), common + trailing(batch))
            if group.bound is not None:
                removed.add(group.bound.node)
        else:
            needs = {FUNCTION}
            replaced[group.call] = call_of(FUNCTION, [gradients.model], common)
            for call, batch in zip(group.calls, group.batches):
                replaced[call] = call.with_changes(args=arguments_of(leading(batch), trailing(batch)))
        if gradients.clip and re.search(r"clipnorm|clipvalue", self._text):
            notes.append("clips as this version's training does; Keras up to 2.3 clipped the joint norm of just these params")
        if _may_have_several(Reader(self.names).resolve(gradients.params)):
            notes.append("of a layer with several inputs or outputs the gradients are now a list within the list")
        return Plan(self.names.line(group.calls[0] if single else group.call), replaced, removed, needs, notes)

    def _common(self, gradients, single):
        params = _params(self.names, gradients)
        options = []
        is_default = self.names.code(gradients.params).strip() == self.names.code(gradients.model).strip() + ".trainable_weights"
        if not (single and is_default):
            options.append(keyword("params", params))
        if not gradients.clip:
            options.append(keyword("clip", cst.Name("False")))
        return options

    # -- what no group explains

    def _explain_the_rest(self):
        for node in self.names.nodes:
            is_old = isinstance(node, cst.Attribute) and node.attr.value in EXPLANATIONS
            if not is_old and not self._is_derivative(node):
                continue
            statement = self.names.statement(node)
            if statement is None or statement in self._explained:
                continue
            self._explained.add(statement)
            reason, advice = self._explanation(node, statement) if is_old else OTHER
            self.leftovers.append(Leftover(self.names.line(node), reason, advice))

    def _is_derivative(self, node):
        """Whether a call is ``K.gradients`` of something else than a total loss."""
        if not isinstance(node, cst.Call) or self.names.qualified(node.func) in ("tensorflow.gradients", "tensorflow.compat.v1.gradients"):
            return False
        reader = Reader(self.names)
        given = arguments(node, ("loss", "variables"))
        loss = None if given is None else given.get("loss")
        return reader.is_backend(node.func, "gradients") and not (loss is not None and is_total_loss(reader.peek(loss)))

    def _explanation(self, node, statement):
        for call in [one for one in self.names.ancestors(node) if isinstance(one, cst.Call)]:
            name = self.names.qualified(call.func).rpartition(".")[2]
            if name == "get_updates":
                return "get_updates builds the optimizer's own step", "train_on_batch, or tf.GradientTape with " + NUMERIC
            if name in ("get_gradients", "gradients"):
                return self._fate_of_gradients(call)
            if name == "function":
                return "a Keras function of something else than just the gradients", VALUE
            if name == "run":
                return "a session run with a feed dict", FED
            if name == "minimize":
                return "a step of an optimizer of TensorFlow's own", "train_on_batch"
        if any(isinstance(one, cst.Dict) for one in self.names.ancestors(node)):
            return "a feed dict", FED
        return EXPLANATIONS[node.attr.value]

    def _fate_of_gradients(self, call):
        names = self.names
        if any(isinstance(one, (cst.For, cst.While, cst.BaseComp)) for one in names.ancestors(call)):
            return "gradients of the total loss, made in a loop", ADVICE + " once, with a list of params"
        parent = names.parents[call]
        if isinstance(parent, cst.Return):
            return "symbolic gradients are returned, and what becomes of them cannot be seen here", REUSED
        binding = next((one for one in _bindings(names) if one.value is call), None)
        uses = names.uses(binding) if binding is not None else None
        if uses and any(_is_run(names, use) for use in uses):
            return "evaluated by a session run with a feed dict", FED
        if uses:
            lines = sorted(set(names.line(use) for use in uses))
            where = "line%s %s" % ("s" if len(lines) > 1 else "", ", ".join(str(line) for line in lines))
            return "more is built from symbolic gradients (norms, concatenations, second derivatives, ...), in " + where, NUMERIC
        return "symbolic gradients whose evaluation cannot be seen here", ADVICE


OTHER = ("the derivative of something else than the training loss", OF)
EXPLANATIONS = {
    "total_loss": ("the symbolic total loss of a model", VALUE),
    "_feed_targets": ("placeholders of a model", ADVICE),
    "_feed_sample_weights": ("placeholders of a model", ADVICE),
    "_standardize_user_data": ("data is prepared as Keras does itself", ADVICE + ", which takes the data as train_on_batch does"),
}


def _attempt(function, *args):
    try:
        function(*args)
    except Doubt as doubt:
        return doubt
    return None


def _bindings(names):
    return [one for found in names.bindings.values() for several in found.values() for one in several]


def _block(names, node):
    return next((one for one in names.ancestors(node) if isinstance(one, (cst.BaseSuite, cst.Module))), None)


def _fate(names, parent):
    if isinstance(parent, cst.Return):
        return "returned"
    while not isinstance(parent, (cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.Module)):
        parent = names.parents[parent]
    if isinstance(parent, cst.Assign):
        return "kept as %s" % names.code(parent.targets[0].target).strip()
    return "passed on"


def _is_run(names, use):
    return any(_is_session_run(one) for one in names.ancestors(use))


def _is_session_run(node):
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "run"


def _is_empty(node):
    return isinstance(node, (cst.List, cst.Tuple)) and not node.elements


def _original(names, part):
    """The node of the module that a part of a batch is, or is made of."""
    if part in names.order:
        return part
    found = []

    class Visitor(cst.CSTVisitor):
        def on_visit(self, node):
            if node in names.order and isinstance(node, cst.BaseExpression):
                found.append(node)
            return not found

    part.visit(Visitor())
    return found[0]


def _params(names, gradients):
    """The params as a list, since the old idiom's result is one whatever it is given."""
    reader = Reader(names)
    node, found = gradients.params, reader.resolve(gradients.params)
    kind = _shape_of_name(names, found) if isinstance(found, cst.Name) else shape(found)
    if kind == "list":
        return node
    if kind == "tuple":
        return cst.Call(cst.Name("list"), [cst.Arg(node)])
    if kind == "single":
        return cst.List([cst.Element(node)])
    if not dotted(node):
        raise Doubt("whether %s is one param or a list of them cannot be told" % shortened(names.code(node)))
    template = "list({0}) if isinstance({0}, (list, tuple)) else [{0}]".format(dotted(node))
    return cst.parse_expression(template)


def _shape_of_name(names, node):
    """The shape of a name that is bound several times, but always alike."""
    found = names.holder(node.value, node)[1]
    shapes = [shape(one.value) for one in found if not isinstance(one.node, cst.AugAssign)]
    return shapes[0] if shapes and all(one == "list" for one in shapes) and all(_is_plain(one) for one in found) else None


def _is_plain(binding):
    return binding.value is not None or isinstance(binding.node, cst.AugAssign)


def _may_have_several(node):
    return isinstance(node, cst.Attribute) and node.attr.value in ("input", "output")
