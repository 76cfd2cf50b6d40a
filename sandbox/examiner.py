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
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, NoReturn, cast

from sandbox import plain, rpc
from sandbox.child import Job, close_others, read_all, set_limits
from sandbox.rpc import is_builtin

_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True)
class Uses:
    """How the text of the tests uses names that it does not define itself."""

    shadowed: frozenset[str]
    """Built-in names that can only mean the program's, as the tests name nothing else of it (a task called ``sum``)."""
    modules: frozenset[str]
    """Modules of the standard library that the tests take for imported: they get the real ones."""

    @classmethod
    def of(cls, text: str) -> Uses:
        loaded: list[str] = []
        bound: set[str] = set()
        called: set[str] = set()
        dotted: list[str] = []
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Name(id=name, ctx=ast.Load()):
                    loaded.append(name)
                case ast.Name(id=name) | ast.arg(arg=name):
                    bound.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    bound.add(name)
                case ast.alias(name=name, asname=other):
                    bound.add((other or name).split(".")[0])
                case ast.ExceptHandler(name=str(name)):
                    bound.add(name)
                case ast.Call(func=ast.Name(id=name)):
                    called.add(name)
                case ast.Attribute(value=ast.Name(id=name)):
                    dotted.append(name)
                case _:
                    pass
        free = set(loaded) - bound
        always_dotted = {name for name in free if loaded.count(name) == dotted.count(name)}
        modules = always_dotted & sys.stdlib_module_names
        shadowed = set[str]() if free - _BUILTINS - modules else called & free & _BUILTINS
        return cls(frozenset(shadowed), frozenset(modules))


class Link:
    """The connection to the program's process."""

    def __init__(self, fd: int, names: Names) -> None:
        self.fd = fd
        self.names = names
        self.raised: BaseException | None = None
        """The exception that the program raised last."""
        self.callbacks: list[Callable[..., object]] = []
        """Functions of the tests that the program holds."""

    def ask(self, do: str, **message: object) -> dict[str, Any]:
        """One request and its reply.

        Raises:
            the program's exception as the nearest built-in one; Closed when its process is gone.
        """
        rpc.send(self.fd, {"do": do, **message}, self._opaque)
        while True:
            reply = rpc.receive(self.fd, self._revive)
            if "callback" not in reply:
                break
            self._call_back(reply)
        if "error" in reply:
            self.raised = rpc.exception(reply["error"], str(reply.get("text", "")))
            raise self.raised
        return reply

    def value(self, do: str, **message: object) -> Any:
        return self.ask(do, **message).get("value")

    def _call_back(self, request: dict[str, Any]) -> None:
        """Run a function that the tests gave to the program, on arguments that the program gave."""
        try:
            function = self.callbacks[request["callback"]]
            answer: dict[str, Any] = {"returned": function(*request["args"], **request["kwargs"])}
        except Exception as error:
            answer = {"error": [base.__name__ for base in type(error).__mro__], "text": str(error)[:1000]}
        rpc.send(self.fd, answer, self._opaque)

    def _opaque(self, value: object) -> tuple[str, object]:
        if isinstance(value, Remote):
            return "handle", [_number(value), ""]
        kind = type(value)
        if kind.__name__ in self.names.classes:
            return "object", [kind.__name__, dict(vars(value))]
        if is_builtin(value):
            return "builtin", getattr(value, "__name__", "")
        if callable(value):
            self.callbacks.append(value)
            return "callback", len(self.callbacks) - 1
        raise plain.NotPlain(f"a {kind.__name__} of the test cannot be passed to the program")

    def _revive(self, tag: str, content: Any) -> object:
        if tag == "handle":
            return Remote(self, int(content[0]), str(content[1]))
        if tag == "builtin":
            return getattr(builtins, content)
        if tag != "object" or content[0] not in self.names.classes:
            raise plain.NotPlain(f"unknown tag {tag!r}")
        kind = self.names.classes[content[0]]
        value = object.__new__(kind)
        vars(value).update(content[1])
        return value


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
        return any(item == value for item in self)  # what it holds is data; what it says of itself is not

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

    def __init__(self, uses: Uses) -> None:
        super().__init__({"__name__": "__main__", "__builtins__": builtins})
        self.uses = uses
        self.link: Link | None = None
        self.classes: dict[str, type] = {}

    def __missing__(self, name: str) -> Any:
        if name in self.uses.modules:
            return importlib.import_module(name)
        if self.link is None or (name in _BUILTINS and name not in self.uses.shadowed):
            raise KeyError(name)
        reply = self.link.ask("look", name=name)
        if reply.get("missing"):
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
    names = Names(Uses.of(setup + "\n" + code))
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
