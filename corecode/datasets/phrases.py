"""Python expressions in plain words, for thoughts that are derived from reference programs."""

from __future__ import annotations

import ast

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Mod: "mod",
    ast.Pow: "to the power",
    ast.MatMult: "times the matrix",
    ast.BitAnd: "bit-and",
    ast.BitOr: "bit-or",
    ast.BitXor: "bit-xor",
    ast.LShift: "shifted left by",
    ast.RShift: "shifted right by",
}
_COMPARISONS: dict[type[ast.AST], str] = {
    ast.Eq: "equals",
    ast.NotEq: "differs from",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "is in",
    ast.NotIn: "is not in",
}
_FUNCTIONS = {
    "abs": "the absolute value of {}",
    "all": "whether all of {} hold",
    "any": "whether any of {} holds",
    "bin": "{} in binary",
    "bool": "whether {} is true",
    "chr": "the character with code {}",
    "dict": "a dictionary of {}",
    "enumerate": "{} with its indices",
    "float": "{} as a number",
    "input": "a line of input",
    "int": "{} as an integer",
    "iter": "the items of {}",
    "len": "the length of {}",
    "list": "the list of {}",
    "max": "the largest of {}",
    "min": "the smallest of {}",
    "next": "the next of {}",
    "ord": "the code of {}",
    "print": "print {}",
    "reversed": "{} in reverse",
    "round": "{} rounded",
    "set": "the distinct values of {}",
    "sorted": "{} sorted",
    "str": "{} as text",
    "sum": "the sum of {}",
    "tuple": "the tuple of {}",
    "type": "the type of {}",
    "zip": "{} in parallel",
}
_EMPTY = {"list": "an empty list", "dict": "an empty dictionary", "set": "an empty set", "tuple": "an empty tuple"}
_METHODS = {
    "append": "append {1} to {0}",
    "add": "add {1} to {0}",
    "count": "how often {1} is in {0}",
    "endswith": "{0} ends with {1}",
    "extend": "append all of {1} to {0}",
    "find": "the position of {1} in {0}",
    "get": "the entry of {0} for {1}",
    "index": "the position of {1} in {0}",
    "insert": "insert into {0} at position {1} the value {2}",
    "isalpha": "{0} is made of letters",
    "isdigit": "{0} is made of digits",
    "islower": "{0} is lower case",
    "isupper": "{0} is upper case",
    "items": "the keys and values of {0}",
    "join": "{1} joined with {0}",
    "keys": "the keys of {0}",
    "lower": "{0} in lower case",
    "pop": "the last item taken from {0}",
    "remove": "remove {1} from {0}",
    "replace": "{0} with {1} replaced by {2}",
    "reverse": "reverse {0}",
    "sort": "sort {0}",
    "split": "the words of {0}",
    "startswith": "{0} starts with {1}",
    "strip": "{0} without outer spaces",
    "swapcase": "{0} with swapped case",
    "upper": "{0} in upper case",
    "values": "the values of {0}",
}


def phrase(node: ast.expr) -> str:
    """An expression in words. Names, constants and plain arithmetic stay as they are."""
    match node:
        case ast.BinOp(op=ast.FloorDiv()):
            return f"{_operand(node.left)} divided by {_operand(node.right)} rounded down"
        case ast.BinOp():
            left = _term(node.left) if isinstance(node.op, ast.Add | ast.Sub) else _operand(node.left)
            right = _term(node.right) if isinstance(node.op, ast.Add) else _operand(node.right)
            return f"{left} {_OPERATORS[type(node.op)]} {right}"
        case ast.BoolOp():
            word = " and " if isinstance(node.op, ast.And) else " or "
            return word.join(
                phrase(value) if isinstance(value, ast.Compare) else _operand(value) for value in node.values
            )
        case ast.UnaryOp(op=ast.Not()):
            return f"not {_operand(node.operand)}"
        case ast.UnaryOp():
            return f"{'-' if isinstance(node.op, ast.USub) else ''}{_operand(node.operand)}"
        case ast.Compare():
            return _comparison(node)
        case ast.IfExp():
            return f"{phrase(node.body)} if {phrase(node.test)}, else {phrase(node.orelse)}"
        case ast.Call():
            return _call(node)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            element, loops = phrase(node.elt), comprehension(node.generators)
            if isinstance(node.elt, ast.Name) and loops.startswith(f"each {element} of "):
                return loops  # "x for each x of a" says the same twice
            return f"{element} for {loops}"
        case ast.DictComp():
            return f"{phrase(node.key)} to {phrase(node.value)} for {comprehension(node.generators)}"
        case ast.Subscript():
            return _subscript(node)
        case ast.Attribute():
            return f"{node.attr} of {_operand(node.value)}"
        case ast.Lambda():
            return phrase(node.body)
        case ast.List() | ast.Tuple() | ast.Set():
            return _sequence(node)
        case ast.Dict():
            return "a fixed table" if node.keys else "an empty dictionary"
        case ast.JoinedStr():
            parts = [phrase(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
            return f"text made of {listing(parts)}" if parts else "a text"
        case ast.Starred():
            return f"all of {_operand(node.value)}"
        case _:
            return ast.unparse(node)


def comprehension(generators: list[ast.comprehension]) -> str:
    """The loops of a comprehension: ``each x of a where x > 0``."""
    loops: list[str] = []
    for generator in generators:
        where = "".join(f" where {phrase(test)}" for test in generator.ifs)
        loops.append(f"each {phrase(generator.target)} of {_operand(generator.iter)}{where}")
    return " and ".join(loops)


def listing(words: list[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "nothing"


def _operand(node: ast.expr) -> str:
    """A part of a longer phrase, in brackets where its own words could run into the others'."""
    compound = (
        ast.BinOp | ast.BoolOp | ast.IfExp | ast.Lambda | ast.Compare | ast.GeneratorExp | ast.ListComp | ast.SetComp
    )
    return f"({phrase(node)})" if isinstance(node, compound) else phrase(node)


def _term(node: ast.expr) -> str:
    """A side of a sum or comparison: products and remainders bind closer and need no brackets."""
    products = ast.Mult | ast.Div | ast.Mod
    return phrase(node) if isinstance(node, ast.BinOp) and isinstance(node.op, products) else _operand(node)


def _side(node: ast.expr) -> str:
    """A side of a comparison: arithmetic binds closer and needs no brackets."""
    return phrase(node) if isinstance(node, ast.BinOp) else _operand(node)


def _comparison(node: ast.Compare) -> str:
    words = [_side(node.left)]
    for operator, right in zip(node.ops, node.comparators, strict=True):
        words += [_COMPARISONS[type(operator)], _side(right)]
    return " ".join(words)


def _sequence(node: ast.List | ast.Tuple | ast.Set) -> str:
    kind = {ast.List: "list", ast.Tuple: "tuple", ast.Set: "set"}[type(node)]
    if not node.elts:
        return _EMPTY[kind]
    items = ", ".join(phrase(item) for item in node.elts)
    return items if isinstance(node, ast.Tuple) else f"the {kind} {items}"


def _subscript(node: ast.Subscript) -> str:
    value, index = _operand(node.value), node.slice
    if not isinstance(index, ast.Slice):
        return f"{value} at {phrase(index)}"
    step = phrase(index.step) if index.step else ""
    if index.lower is None and index.upper is None:
        return f"{value} reversed" if step == "-1" else f"every {step}th of {value}" if step else f"a copy of {value}"
    start = f" from {phrase(index.lower)}" if index.lower else ""
    stop = f" up to before {phrase(index.upper)}" if index.upper else ""
    return f"{value}{start}{stop}{f' in steps of {step}' if step else ''}"


def _call(node: ast.Call) -> str:
    arguments = [_operand(argument) for argument in node.args]
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    if isinstance(node.func, ast.Attribute):
        return _method(node.func, arguments, options)
    name = phrase(node.func)
    if name == "range":
        return _range(arguments)
    if name in ("map", "filter") and len(arguments) == 2:
        verb = "applied to" if name == "map" else "as a filter on"
        return f"{arguments[0]} {verb} each of {arguments[1]}"
    if name == "isinstance" and len(arguments) == 2:
        return f"{arguments[0]} is of type {arguments[1]}"
    if name in _EMPTY and not arguments:
        return _EMPTY[name]
    if name == "sum" and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
        counted, loops = node.args[0].elt, comprehension(node.args[0].generators)
        if isinstance(counted, ast.Compare):
            return f"how many hold of {phrase(counted)} for {loops}"
        if isinstance(counted, ast.Constant) and counted.value == 1:
            return f"how many there are: {loops}"
    if name in _FUNCTIONS and arguments:
        several = f"({', '.join(arguments)})" if len(arguments) > 1 else arguments[0]
        return _FUNCTIONS[name].format(several) + _order(options)
    if name in ("input", "print"):
        return "a line of input" if name == "input" else "print an empty line"
    return f"{name}({', '.join(arguments)})"


def _method(function: ast.Attribute, arguments: list[str], options: dict[str | None, ast.expr]) -> str:
    owner, name = _operand(function.value), function.attr
    template = _METHODS.get(name)
    if template is not None and template.count("{") <= len(arguments) + 1:
        return template.format(owner, *arguments) + _order(options)
    return f"{owner}.{name}({', '.join(arguments)})"


def _order(options: dict[str | None, ast.expr]) -> str:
    """The words for ``key`` and ``reverse``."""
    key, reverse = options.get("key"), options.get("reverse")
    words = f" by {phrase(key)}" if key is not None else ""
    down = isinstance(reverse, ast.Constant) and reverse.value is True
    return words + (" in falling order" if down else "")


def _range(arguments: list[str]) -> str:
    if len(arguments) == 1:
        return f"0 up to before {arguments[0]}"
    step = f" in steps of {arguments[2]}" if len(arguments) == 3 else ""
    return f"{arguments[0]} up to before {arguments[1]}{step}"
