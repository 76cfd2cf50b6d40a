"""The trusted side of assert-style tests: a process that never holds untrusted code runs the asserts.

Names that the tests do not define stand for the program's. Using one asks the program's process, and what comes back
is plain data, so no class of the program decides a comparison; an object that is not plain stays there and is equal
only to itself. The result leaves through a pipe that only this process holds.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import os
import sys
from types import CodeType
from typing import Any, NoReturn, cast

from sandbox import plain, rpc
from sandbox.child import Job, close_others, read_all, set_limits

_BUILTINS = frozenset(dir(builtins))


class Link:
    """The connection to the program's process."""

    def __init__(self, fd: int, names: Names) -> None:
        self.fd = fd
        self.names = names
        self.raised: BaseException | None = None
        """The exception that the program raised last."""

    def ask(self, do: str, **message: object) -> dict[str, Any]:
        """One request and its reply.

        Raises:
            the program's exception as the nearest built-in one; Closed when its process is gone.
        """
        rpc.send(self.fd, {"do": do, **message}, self._opaque)
        reply = rpc.receive(self.fd, self._revive)
        if "error" in reply:
            self.raised = _exception(reply["error"], str(reply.get("text", "")))
            raise self.raised
        return reply

    def value(self, do: str, **message: object) -> Any:
        return self.ask(do, **message).get("value")

    def _opaque(self, value: object) -> tuple[str, object]:
        if isinstance(value, Remote):
            return "handle", [object.__getattribute__(value, "_number"), ""]
        kind = type(value)
        if kind.__name__ in self.names.classes:
            return "object", [kind.__name__, dict(vars(value))]
        raise plain.NotPlain(f"a {kind.__name__} of the test cannot be passed to the program")

    def _revive(self, tag: str, content: Any) -> object:
        if tag == "handle":
            return Remote(self, int(content[0]), str(content[1]))
        if tag != "object" or content[0] not in self.names.classes:
            raise plain.NotPlain(f"unknown tag {tag!r}")
        kind = self.names.classes[content[0]]
        value = object.__new__(kind)
        vars(value).update(content[1])
        return value


def _exception(names: object, text: str) -> BaseException:
    for name in cast("list[object]", names) if isinstance(names, list) else []:
        kind = getattr(builtins, name, None) if isinstance(name, str) else None
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                return kind(text)
            except TypeError:  # a Unicode error wants five arguments
                continue
    return RuntimeError(text)


class Remote:
    """An object in the program's process. Equal to itself only; everything else is asked for."""

    __slots__ = ("_kind", "_link", "_number")

    def __init__(self, link: Link, number: int, kind: str) -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_kind", kind)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        reply = _link(self).ask("call", target=self, args=list(args), kwargs=kwargs)
        changed = reply.get("changed")
        for index, new in cast("list[Any]", changed) if isinstance(changed, list) else []:
            _update(args[index], new)
        return reply.get("value")

    def __getattr__(self, name: str) -> Any:
        return _link(self).value("get", target=self, name=name)

    def __setattr__(self, name: str, value: object) -> None:
        _link(self).ask("set", target=self, name=name, value=value)

    def __getitem__(self, key: object) -> Any:
        return _link(self).value("item", target=self, key=key)

    def __setitem__(self, key: object, value: object) -> None:
        _link(self).ask("set item", target=self, key=key, value=value)

    def __contains__(self, value: object) -> bool:
        return _link(self).value("contains", target=self, value=value) is True

    def __iter__(self) -> Any:
        return _link(self).value("iterate", target=self)

    def __next__(self) -> Any:
        return _link(self).value("next", target=self)

    def __len__(self) -> int:
        return int(_link(self).value("length", target=self))

    def __bool__(self) -> bool:
        return _link(self).value("truth", target=self) is True

    def __str__(self) -> str:
        return str(_link(self).value("text", target=self))

    def __repr__(self) -> str:
        return str(_link(self).value("repr", target=self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and _number(other) == _number(self)

    def __hash__(self) -> int:
        return hash(_number(self))


def _link(remote: Remote) -> Link:
    return object.__getattribute__(remote, "_link")


def _number(remote: Remote) -> int:
    return object.__getattribute__(remote, "_number")


def _update(old: object, new: object) -> None:
    """Make a mutable argument look as the program left it."""
    if isinstance(old, list) and isinstance(new, list):
        old[:] = cast("list[object]", new)
    elif (isinstance(old, dict) and isinstance(new, dict)) or (isinstance(old, set) and isinstance(new, set)):
        old.clear()
        cast("set[object]", old).update(cast("set[object]", new))


class Names(dict[str, Any]):
    """The tests' namespace: a name that is missing here is the program's."""

    def __init__(self, shadowed: frozenset[str]) -> None:
        super().__init__({"__name__": "__main__", "__builtins__": builtins})
        self.shadowed = shadowed
        """Built-in names that the tests mean as the program's (a task called ``sum``)."""
        self.link: Link | None = None
        self.classes: dict[str, type] = {}

    def __missing__(self, name: str) -> Any:
        if self.link is None or (name in _BUILTINS and name not in self.shadowed):
            raise KeyError(name)
        reply = self.link.ask("look", name=name)
        if reply.get("missing"):
            raise KeyError(name)
        if "module" in reply:
            # The program imported it, the tests use it: they get the real one.
            if name in sys.stdlib_module_names:
                return importlib.import_module(name)
            raise KeyError(name)
        value = reply.get("value")
        if isinstance(value, Remote):
            self[name] = value
        return value


def examine(job: Job) -> NoReturn:
    """Run the tests and end the process. ``job.fds``: tests, report pipe, connection."""
    tests, report, connection = job.fds
    result: dict[str, object] = {"failed": "SystemError"}
    try:
        data = json.loads(read_all(tests))
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        close_others(report, connection)
        set_limits(job.command["limits"])
        result = _examine(connection, data["setup"], data["code"])
    except BaseException as error:  # also what a test raises on purpose
        result = {"failed": type(error).__name__, "text": str(error)[:300]}
    finally:
        os.write(report, json.dumps(result).encode()[:60000])
        os._exit(0)


def _examine(connection: int, setup: str, code: str) -> dict[str, object]:
    try:
        parts = [compile(text, name, "exec", dont_inherit=True) for text, name in ((setup, "setup"), (code, "test"))]
    except (SyntaxError, ValueError) as error:
        return {"broken": f"the test does not compile: {error}"}
    names = Names(_shadowed(setup + "\n" + code))
    link = names.link = Link(connection, names)
    try:
        _run(parts, names, link)
    except rpc.Closed:
        return {"lost": True}
    except BaseException as error:
        found = error is link.raised
        line = _line(error)
        return {"failed": type(error).__name__, "program": found, "line": line, "text": str(error)[:300]}
    return {"passed": True}


def _run(parts: list[CodeType], names: Names, link: Link) -> None:
    setup, code = parts
    exec(setup, names)
    names.classes = {name: value for name, value in names.items() if isinstance(value, type)}
    link.ask("open", classes=list(names.classes))
    exec(code, names)


def _line(error: BaseException) -> int:
    """The line of the test at which it failed."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "test":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _shadowed(text: str) -> frozenset[str]:
    """Built-in names that tests call and that can only be the program's: the tests name nothing else of it."""
    loaded: set[str] = set()
    bound: set[str] = set()
    called: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
    if loaded - bound - _BUILTINS:
        return frozenset()
    return frozenset((called & _BUILTINS) - bound)
