"""Carrying out plans on a module: replacing, taking out, importing. What is not touched stays as it is, comments included."""
import libcst as cst

from .analysis import Analysis
from .calls import FUNCTION, GET, NUMPY, STANDS_FOR
from .names import children, dotted, exported

PACKAGE = "tfgradcompat"
WIDTH = 100  # of lines that are written


class Result(object):
    """What became of one module.

    Attributes:
        text: the new source.
        plans: the plans that were carried out, lines as they were before.
        before, after: the leftovers by the lines of the old and of the new source.
    """

    def __init__(self, text, plans, before):
        self.text, self.plans, self.before = text, plans, before

    @property
    def after(self):
        return Analysis(cst.parse_module(self.text)).leftovers


def rewrite(text, outside=lambda name: None):
    """The ``Result`` for a module's source; ``outside`` as for ``Analysis``. Raises ``libcst.ParserSyntaxError``."""
    analysis = Analysis(cst.parse_module(text), outside)
    if not analysis.plans:
        return Result(text, [], analysis.leftovers)
    new = _apply(analysis.names, analysis.plans, outside)
    return Result(new.code, sorted(analysis.plans, key=lambda plan: plan.line), analysis.leftovers)


def _apply(names, plans, outside):
    replaced, removed, needs = {}, set(), set()
    for plan in plans:
        replaced.update(plan.replaced)
        removed |= plan.removed
        needs |= plan.needs
    spelled, imports = _spelling(names, needs)
    numpy, needs_numpy = _numpy(names)
    renaming = _Renaming(dict({STANDS_FOR[name]: spelled[name] for name in spelled}, **{NUMPY: numpy}))
    nested = _Nested(replaced)
    fewer, gone = _unused_imports(names, replaced, removed, outside)
    replaced = {node: _folded(names, node, new.visit(nested).visit(renaming)) for node, new in replaced.items()}
    if NUMPY in renaming.seen and needs_numpy:
        imports = ["import numpy" if numpy == "numpy" else "import numpy as " + numpy] + imports
    replaced.update(fewer)
    module = names.module.visit(_Edits(names, replaced, removed | gone))
    return _with_imports(module, [line for line in imports if not _has(module, line)])


def _line_of(names, node):
    """The statement whose first line, comments before it included, has a node."""
    return next(one for one in names.ancestors(node) if isinstance(one, cst.BaseStatement) or one is names.module)


def _spelling(names, needs):
    """How the facade's functions are called in this module, and the import lines for that."""
    own = {name: "%s.%s" % (PACKAGE, name) for name in (GET, FUNCTION)}
    at_module_level = names.bindings.get(names.module, {})
    already = names.imports.get(PACKAGE) == {PACKAGE} and PACKAGE in at_module_level
    for name in needs:
        elsewhere = [one for found in names.bindings.values() for one in found.get(name, [])]
        is_ours = names.imports.get(name) == {own[name]} and name in at_module_level
        if (elsewhere or name in names.loads or name in names.declared) and not (is_ours and len(elsewhere) == 1):
            return own, [] if already else ["import " + PACKAGE]
    if already:
        return own, []
    spelled = {name: name for name in own}
    missing = sorted(name for name in needs if names.imports.get(name) != {own[name]})
    return spelled, ["from %s import %s" % (PACKAGE, ", ".join(missing))] if missing else []


def _numpy(names):
    """(what NumPy is called in this module, whether it has to be imported)."""
    for bound, full in names.imports.items():
        if full == {"numpy"} and bound in names.bindings.get(names.module, {}):
            return bound, False
    taken = "np" in names.loads or any("np" in found for found in names.bindings.values())
    return "numpy" if taken else "np", True


def _folded(names, node, call):
    """A call on lines of its own if it makes its line longer than it may be."""
    room = WIDTH - _column(names, node)
    in_string = any(isinstance(one, cst.FormattedStringExpression) for one in names.ancestors(node))
    if len(names.code(call)) <= room or "\n" in names.code(call) or in_string:
        return call
    inner = _new_line(names.module.default_indent)
    fits = len(names.code(call)) <= WIDTH - len(names.module.default_indent)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ") if fits else inner)
    args = [arg.with_changes(comma=comma) for arg in call.args[:-1]]
    last = {"whitespace_after_arg": _new_line("")} if fits else {"comma": cst.Comma(whitespace_after=_new_line(""))}
    args.append(call.args[-1].with_changes(**last))
    return call.with_changes(whitespace_before_args=inner, args=args)


def _column(names, node):
    """Where a node will start, if what is before it on its line in other statements goes."""
    statement = names.statement(node)
    if names.line(statement) != names.line(node):
        return names.column(node)
    return names.column(node) - names.column(statement) + names.column(names.parents[statement])


def _new_line(indent):
    return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(indent))


class _Nested(cst.CSTTransformer):
    """What is to be replaced within a replacement is replaced there."""

    def __init__(self, replaced):
        super(_Nested, self).__init__()
        self.replaced = replaced

    def on_leave(self, original_node, updated_node):
        new = self.replaced.get(original_node)
        return updated_node if new is None else new.visit(self)


class _Renaming(cst.CSTTransformer):
    """What stands for a function gets its spelling in the module."""

    def __init__(self, spelled):
        super(_Renaming, self).__init__()
        self.spelled, self.seen = spelled, set()

    def leave_Name(self, original_node, updated_node):
        if original_node.value not in self.spelled:
            return updated_node
        self.seen.add(original_node.value)
        return cst.parse_expression(self.spelled[original_node.value])


class _Edits(cst.CSTTransformer):
    """Replace nodes and take statements out; the comments of these stay, before what follows."""

    def __init__(self, names, replaced, removed):
        super(_Edits, self).__init__()
        self.replaced, self.removed = replaced, removed
        self._touched = set(_line_of(names, node) for node in replaced)
        self._around = set(one for node in removed.union(replaced) for one in names.ancestors(node))
        self._emptied = {}

    def on_visit(self, node):
        return node in self._around

    def on_leave(self, original_node, updated_node):
        if original_node in self.replaced:
            new = self.replaced[original_node]
            if isinstance(new, cst.BaseExpression):
                return new.with_changes(lpar=original_node.lpar, rpar=original_node.rpar)
            return new
        if original_node in self._touched:
            updated_node = _with_comments_of(original_node, updated_node)
        if original_node not in self._around:
            return updated_node
        if isinstance(original_node, cst.SimpleStatementLine):
            return self._line(original_node, updated_node)
        if isinstance(original_node, (cst.IndentedBlock, cst.Module)):
            return self._block(updated_node)
        if isinstance(original_node, cst.SimpleStatementSuite):
            kept = [new for old, new in zip(original_node.body, updated_node.body) if old not in self.removed]
            return updated_node.with_changes(body=_joined(kept) or [cst.Pass()])
        return super(_Edits, self).on_leave(original_node, updated_node)

    def _line(self, original, updated):
        kept = [new for old, new in zip(original.body, updated.body) if old not in self.removed]
        if len(kept) == len(updated.body):
            return updated
        comments = [comment for old in original.body if old in self.removed for comment in _comments(old)]
        if kept:
            return updated.with_changes(body=_joined(kept), leading_lines=list(updated.leading_lines) + _lines(comments))
        if original.trailing_whitespace.comment:
            comments.append(original.trailing_whitespace.comment)
        new = updated.with_changes(body=[cst.Pass()])
        self._emptied[new] = list(updated.leading_lines) + _lines(comments)
        return new

    def _block(self, updated):
        body, carried = [], []
        for statement in updated.body:
            if statement in self._emptied:
                carried += self._emptied[statement]
            elif carried and hasattr(statement, "leading_lines"):
                leading = list(statement.leading_lines)
                while carried and leading and not carried[-1].comment and not leading[0].comment:
                    carried.pop()  # else the empty lines around what is gone would add up
                body.append(statement.with_changes(leading_lines=carried + leading))
                carried = []
            else:
                body.append(statement)
        carried = [line for line in carried if line.comment] if body else carried
        if body and not carried:
            return updated.with_changes(body=body)
        if isinstance(updated, cst.Module):
            return updated.with_changes(body=body, footer=carried + list(updated.footer))
        if not body:
            body = [cst.SimpleStatementLine([cst.Pass()], leading_lines=carried)]
            return updated.with_changes(body=body)
        return updated.with_changes(body=body, footer=carried + list(updated.footer))


def _joined(statements):
    """Small statements of one line; the last has no semicolon."""
    return list(statements[:-1]) + [one.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for one in statements[-1:]]


def _with_comments_of(original, updated):
    """A statement with the comments that were within what has been replaced, on lines before it."""
    lost = _comments(original)
    kept = [comment.value for comment in _comments(updated)]
    for value in kept:
        place = next((place for place, comment in enumerate(lost) if comment.value == value), None)
        if place is not None:
            del lost[place]
    if not lost or not hasattr(updated, "leading_lines"):
        return updated
    return updated.with_changes(leading_lines=list(updated.leading_lines) + _lines(lost))


def _comments(node):
    found = []

    class Visitor(cst.CSTVisitor):
        def visit_Comment(self, node):
            found.append(node)

    node.visit(Visitor())
    return found


def _lines(comments):
    return [cst.EmptyLine(comment=comment) for comment in comments]


# -- imports


def _unused_imports(names, replaced, removed, outside):
    """(import -> what is left of it, imports that go): of names that only what is taken out used."""
    kept = set(one for new in replaced.values() for one in _nodes(new))
    out = set(replaced) | removed

    def is_out(load):
        return load not in kept and any(one in out for one in names.ancestors(load))

    gone = set(name for name in names.imports if names.loads.get(name) and all(map(is_out, names.loads[name])))
    gone -= set(name for name in gone if exported(names, name) or outside(name))
    fewer, whole = {}, set()
    for node in names.nodes if gone else ():
        if not isinstance(node, (cst.Import, cst.ImportFrom)) or isinstance(node.names, cst.ImportStar):
            continue
        left = [alias for alias in node.names if _bound(alias) not in gone]
        if not left:
            whole.add(node)
        elif len(left) < len(node.names):
            fewer[node] = node.with_changes(names=left[:-1] + [left[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)])
    return fewer, whole


def _nodes(node):
    yield node
    for child in children(node):
        for one in _nodes(child):
            yield one


def _bound(alias):
    return alias.asname.name.value if alias.asname else dotted(alias.name).split(".")[0]


def _has(module, line):
    return any(isinstance(one, cst.SimpleStatementLine) and module.code_for_node(one).strip() == line for one in module.body)


def _with_imports(module, lines):
    """Put import lines after the imports at the head of the module."""
    if not lines:
        return module
    body = list(module.body)
    place = _place(body)
    new = [cst.parse_statement(line) for line in lines]
    if place == 0:
        return _at_the_top(module, new)
    if place < len(body) and hasattr(body[place], "leading_lines") and not _is_import(body[place - 1]):
        new[0] = new[0].with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    return module.with_changes(body=body[:place] + new + body[place:])


def _at_the_top(module, new):
    header = list(module.header)
    if module.body and not header:
        first = module.body[0]
        if hasattr(first, "leading_lines") and not first.leading_lines:
            first = first.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
        return module.with_changes(body=new + [first] + list(module.body[1:]))
    return module.with_changes(body=new + list(module.body))


def _place(body):
    """The place after the last import of the head: what follows a docstring and is imports, plain or tried."""
    place = 0
    for number, statement in enumerate(body):
        if _is_import(statement) or _is_tried_import(statement):
            place = number + 1
        elif number == 0 and _is_docstring(statement):
            place = 1
        elif not _is_pass(statement):  # which stands for a magic of a notebook
            break
    return place


def _is_import(statement):
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(one, (cst.Import, cst.ImportFrom)) for one in statement.body
    )


def _is_pass(statement):
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Pass)


def _is_tried_import(statement):
    return isinstance(statement, (cst.Try, cst.If)) and all(
        _is_import(one) or _is_tried_import(one) for one in statement.body.body
    )


def _is_docstring(statement):
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )
