"""Names of a module: where they are bound, and which binding a use of one sees."""
from dataclasses import fields

import libcst as cst
from libcst.metadata import PositionProvider

SCOPES = (cst.Module, cst.FunctionDef, cst.Lambda, cst.ClassDef)
LOOPS = (cst.For, cst.While)
WHITESPACE = (cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.Newline, cst.Comment)
COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


class Binding(object):
    """One place that binds a name.

    Attributes:
        name, node: the name, and the statement or other node that binds it.
        value: the value of a plain ``name = value``, else ``None``.
        unpacked: (value, place) of ``a, b = value``, else ``None``.
    """

    def __init__(self, name, node, value=None, unpacked=None):
        self.name, self.node, self.value, self.unpacked = name, node, value, unpacked


class Names(object):
    """An index of a module: parents, order, scopes, bindings, uses, imports."""

    def __init__(self, module):
        self.module = module
        self.parents, self.order, self.nodes = {}, {}, []
        self.bindings, self.loads, self.attributes = {}, {}, []
        self.imports, self.declared = {}, set()
        self._positions, self._reached = None, {}
        self._walk()
        for node in self.nodes:
            self._record(node)

    def _walk(self):
        """Number all nodes but white space in order. libcst's visitors do this as well, ten times slower."""
        waiting = [self.module]
        while waiting:
            node = waiting.pop()
            self.order[node] = len(self.nodes)
            self.nodes.append(node)
            found = children(node)
            for child in found:
                self.parents[child] = node
            waiting.extend(reversed(found))

    # -- positions and surroundings

    def line(self, node):
        """The line a node starts on."""
        return self._start(node).line

    def column(self, node):
        """The column a node starts in."""
        return self._start(node).column

    def _start(self, node):
        if self._positions is None:
            wrapper = cst.metadata.MetadataWrapper(self.module, unsafe_skip_copy=True)
            self._positions = wrapper.resolve(PositionProvider)
        return self._positions[node].start

    def code(self, node):
        """Its source, as it is written."""
        return self.module.code_for_node(node)

    def ancestors(self, node):
        """The nodes around a node, from the inside."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def scope(self, node):
        """The function, class or module that a node is in."""
        return next((one for one in self.ancestors(node) if isinstance(one, SCOPES)), self.module)

    def statement(self, node):
        """The small statement (one between semicolons) or compound statement a node is in."""
        for one in [node] + list(self.ancestors(node)):
            if isinstance(one, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                return one
        return None

    # -- recording

    def _bind(self, scope, name, node, **details):
        self.bindings.setdefault(scope, {}).setdefault(name, []).append(Binding(name, node, **details))

    def _record(self, node):
        if isinstance(node, cst.Name):
            self._record_name(node)
        elif isinstance(node, cst.Assign):
            self._record_assign(node)
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.NamedExpr)):
            self._targets(node.target, node, getattr(node, "value", None) if isinstance(node, cst.AnnAssign) else None)
        elif isinstance(node, cst.For):
            self._targets(node.target, node)
        elif isinstance(node, cst.AsName):
            holder = self.parents[node]
            if not isinstance(holder, cst.ImportAlias):
                self._targets(node.name, holder)
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self._bind(self.scope(node), node.name.value, node)
        elif isinstance(node, cst.Param):
            if not isinstance(node.name, str):
                self._bind(self.scope(node), node.name.value, node)
        elif isinstance(node, (cst.Import, cst.ImportFrom)):
            self._record_import(node)
        elif isinstance(node, (cst.Global, cst.Nonlocal)):
            self.declared.update(item.name.value for item in node.names)

    def _record_assign(self, node):
        if len(node.targets) > 1:
            for target in node.targets:
                self._targets(target.target, node)
            return
        target = node.targets[0].target
        if isinstance(target, cst.Name):
            self._bind(self.scope(node), target.value, node, value=node.value)
        elif isinstance(target, (cst.Tuple, cst.List)) and all(isinstance(e.value, cst.Name) for e in target.elements):
            for place, element in enumerate(target.elements):
                self._bind(self.scope(node), element.value.value, node, unpacked=(node.value, place))
        else:
            self._targets(target, node)

    def _targets(self, target, node, value=None):
        if isinstance(target, cst.Name):
            self._bind(self.scope(node), target.value, node, value=value)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._targets(element.value, node)
        elif isinstance(target, cst.StarredElement):
            self._targets(target.value, node)
        elif isinstance(target, (cst.Attribute, cst.Subscript)):
            self.attributes.append((target, node))

    def _record_import(self, node):
        if isinstance(node.names, cst.ImportStar):
            return
        start = ""
        if isinstance(node, cst.ImportFrom):
            start = "." * len(node.relative) + (dotted(node.module) if node.module else "") + "."
        for alias in node.names:
            path = dotted(alias.name)
            if alias.asname:
                bound, full = alias.asname.name.value, start + path
            elif start:
                bound, full = path, start + path
            else:
                bound = full = path.split(".")[0]
            self._bind(self.scope(node), bound, node)
            self.imports.setdefault(bound, set()).add(full)

    def _record_name(self, node):
        parent = self.parents[node]
        if isinstance(parent, cst.Attribute) and parent.attr is node or isinstance(parent, cst.Arg) and parent.keyword is node:
            return
        holder = parent
        while isinstance(holder, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
            holder = self.parents[holder]
        if isinstance(parent, (cst.AssignTarget, cst.Param, cst.FunctionDef, cst.ClassDef, cst.ImportAlias, cst.NameItem)):
            if getattr(parent, "name", None) is node or isinstance(parent, (cst.AssignTarget, cst.NameItem)):
                return
        if isinstance(holder, cst.AssignTarget) or isinstance(holder, (cst.For, cst.AsName)) and self._is_target(holder, node):
            return
        if isinstance(parent, (cst.AnnAssign, cst.NamedExpr)) and parent.target is node:
            return
        if any(isinstance(one, (cst.Import, cst.ImportFrom)) for one in self.ancestors(node)):
            return
        if self._comprehension_of(node) is None:
            self.loads.setdefault(node.value, []).append(node)

    def _is_target(self, holder, node):
        target = holder.target if isinstance(holder, cst.For) else holder.name
        return target is node or any(one is target for one in self.ancestors(node))

    def _comprehension_of(self, node):
        """The comprehension that has a variable of this name around this node: such names are nobody else's."""
        for one in self.ancestors(node):
            if isinstance(one, SCOPES):
                return None
            if isinstance(one, COMPREHENSIONS):
                inner = one.for_in
                while inner is not None:
                    if node.value in set(_names_in(inner.target)):
                        return one
                    inner = inner.inner_for_in
        return None

    # -- questions

    def holder(self, name, at):
        """The scope whose binding of ``name`` a use at node ``at`` sees, and its bindings."""
        scope, first = self.scope(at), True
        while True:
            found = self.bindings.get(scope, {}).get(name)
            if found and (first or not isinstance(scope, cst.ClassDef)):
                return scope, found
            if scope is self.module:
                return scope, []
            scope, first = self.scope(scope), False

    def reaching(self, load):
        """The one binding a use certainly sees, or ``None``."""
        if load not in self._reached:
            self._reached[load] = self._reaching(load)
        return self._reached[load]

    def _reaching(self, load):
        name = load.value
        if name in self.declared or self._comprehension_of(load) is not None:
            return None
        scope, found = self.holder(name, load)
        if self.scope(load) is not scope:
            return found[0] if len(found) == 1 else None
        before = [one for one in found if self._precedes(one, load)]
        if not before:
            return None
        last = max(before, key=lambda one: self.order[one.node])
        if len(found) == 1 and not self.loops(load) & self.loops(last.node):
            return last
        return last if self._dominates(last, load) and not self._rebound(found, last, load) else None

    def _precedes(self, binding, load):
        # The right side of an assignment is evaluated before its target is bound.
        inside = binding.node in self.ancestors_set(load) and not isinstance(binding.node, (cst.For, cst.With, cst.Param))
        return self.order[binding.node] < self.order[load] and not inside

    def _block(self, node):
        return next((one for one in self.ancestors(node) if isinstance(one, (cst.BaseSuite, cst.Module))), self.module)

    def _dominates(self, binding, load):
        if isinstance(binding.node, cst.Param):
            return True
        if isinstance(binding.node, (cst.For, cst.With)):
            return binding.node in self.ancestors_set(load)
        if not isinstance(binding.node, (cst.BaseSmallStatement, cst.FunctionDef, cst.ClassDef)):
            return False
        block = self._block(binding.node)
        return any(one is block for one in self.ancestors(load))

    def _rebound(self, found, last, load):
        """Whether another binding may come between, on the way around a loop."""
        loops = self.loops(load) - self.loops(last.node)
        return any(any(loop in self.ancestors_set(other.node) or loop is other.node for loop in loops) for other in found)

    def ancestors_set(self, node):
        """As a set."""
        return set(self.ancestors(node))

    def loops(self, node):
        """The loops around a node."""
        return set(one for one in self.ancestors(node) if isinstance(one, LOOPS))

    def uses(self, binding):
        """The uses of a binding; ``None`` if there may be others."""
        scope = self.scope(binding.node)
        found = []
        for load in self.loads.get(binding.name, ()):
            if self.holder(binding.name, load)[0] is not scope:
                continue
            reached = self.reaching(load)
            if reached is None:
                return None
            if reached is binding:
                found.append(load)
        return None if binding.name in self.declared else found

    def stays(self, expression, start, end):
        """Whether an expression evaluated at node ``start`` surely means the same objects at node ``end``, further down."""
        after, loops = self.order[start], self.loops(end) - self.loops(start)

        def between(node):
            inside = set([node]) | self.ancestors_set(node)
            within = after < self.order[node] < self.order[end] and node not in self.ancestors_set(end)
            return within or any(loop in inside for loop in loops)

        for name in names_loaded(expression):
            if name in self.declared:
                return False
            found = self.holder(name, start)[1]
            if self.holder(name, end)[1] is not found and (found or self.holder(name, end)[1]):
                return False
            if self.scope(start) is not self.scope(end) and len(found) > 1:
                return False
            if any(between(one.node) for one in found):
                return False
        return not any(between(node) for target, node in self.attributes if self._touches(target, expression))

    def _touches(self, target, expression):
        """Whether setting ``target``, an attribute or an item, may change what an expression means."""
        if isinstance(target, cst.Subscript) and set(names_loaded(target.value)) & set(names_loaded(expression)):
            return True
        return self.code(target).strip() in self.code(expression)

    def qualified(self, expression):
        """The dotted path of an expression with its first name replaced by what that certainly was imported as."""
        path = dotted(expression)
        root, _, rest = path.partition(".")
        found = self.imports.get(root, ())
        if len(found) == 1:
            return ".".join(part for part in (next(iter(found)), rest) if part)
        return path


def children(node):
    """The nodes directly within a node, less white space."""
    names = _FIELDS.get(type(node))
    if names is None:
        names = _FIELDS[type(node)] = [field.name for field in fields(node) if "whitespace" not in field.name]
    found = []
    for name in names:
        value = getattr(node, name)
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, cst.CSTNode) and not isinstance(one, WHITESPACE):
                found.append(one)
    return found


_FIELDS = {}  # of each class of nodes


def _names_in(target):
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            for name in _names_in(element.value):
                yield name


def names_loaded(expression):
    """The names that evaluating an expression looks up."""
    found = []

    class Visitor(cst.CSTVisitor):
        def visit_Attribute(self, node):
            node.value.visit(self)
            return False

        def visit_Arg(self, node):
            node.value.visit(self)
            return False

        def visit_Name(self, node):
            found.append(node.value)

    expression.visit(Visitor())
    return found


def dotted(node):
    """``a.b.c`` of a chain of attributes; ``""`` for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        start = dotted(node.value)
        return start + "." + node.attr.value if start else ""
    return ""


def exported(names, name):
    """Whether a module lists a name in ``__all__``."""
    listed = [one for one in names.bindings.get(names.module, {}).get("__all__", []) if one.value is not None]
    return any(repr(name) in names.code(one.value).replace('"', "'") for one in listed)
