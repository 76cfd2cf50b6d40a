"""The untrusted side of assert-style tests: runs the program, then does what the examiner asks.

Nothing that decides lives here: the asserts run in the examiner's process. A hostile program can make this side send
any data it likes, which is only ever taken for its answer.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from sandbox import plain, rpc
from sandbox.child import Task, new_module


def serve(task: Task) -> int:
    """Run the program and its setup, then answer until the examiner is done."""
    setup = json.loads(task.data)["setup"]
    sys.argv = ["main.py"]
    namespace = new_module("program", task.command["name"])
    if task.counter is not None:
        task.counter.start()
    exec(task.code, namespace)
    if setup:
        # The examiner runs the setup too, and reports its errors; here it only defines what the program may need.
        with contextlib.suppress(Exception):
            exec(compile(setup, "setup.py", "exec", dont_inherit=True), namespace)
    if task.counter is not None:
        task.counter.stop()
    servant = Servant(task, namespace)
    with contextlib.suppress(rpc.Closed):
        while True:
            servant.answer()
    return 0


class Servant:
    """Holds the program's objects and does one request at a time."""

    def __init__(self, task: Task, namespace: dict[str, Any]) -> None:
        self.task = task
        self.namespace = namespace
        self.shared: list[str] = []
        """Names of classes that both sides know: their instances travel as data."""
        self.objects: list[object] = []
        self.numbers: dict[int, int] = {}
        self.pid = os.getpid()

    def answer(self) -> None:
        """Read one request, do it, and reply with its value or its exception."""
        self._obey(rpc.receive(self.task.channel, self._revive))

    def _obey(self, request: dict[str, Any]) -> None:
        counter = self.task.counter
        if counter is not None:
            counter.start()
        try:
            reply = self._do(request)
        except Exception as error:
            names = [base.__name__ for base in type(error).__mro__]
            reply = {"error": names, "text": _text(error)}
        finally:
            if counter is not None:
                counter.stop()
        if os.getpid() != self.pid:
            os._exit(0)  # a fork of the program's: one process answers
        try:
            rpc.send(self.task.channel, reply, self._opaque)
        except plain.NotPlain as error:
            rpc.send(self.task.channel, {"error": ["TypeError"], "text": str(error)}, self._opaque)

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        what = request["do"]
        target = request.get("target")
        if what == "open":
            self.shared = request["classes"]
            return {}
        if what == "look":
            name = request["name"]
            if name not in self.namespace:
                return {"missing": True}
            return {"value": self.namespace[name]}
        if what == "call":
            return self._call(target, request["args"], request["kwargs"])
        if what == "set":
            setattr(target, request["name"], request["value"])
            return {}
        if what == "set item":
            target[request["key"]] = request["value"]  # type: ignore[index]
            return {}
        return {"value": self._ask(what, target, request)}

    def _ask(self, what: str, target: Any, request: dict[str, Any]) -> object:
        match what:
            case "get":
                return getattr(target, request["name"])
            case "item":
                return target[request["key"]]
            case "iterate":
                return iter(target)
            case "next":
                return next(target)
            case "length":
                return len(target)
            case "truth":
                return bool(target)
            case "text":
                return str(target)
            case _:
                return repr(target)

    def _call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Call, and tell which mutable arguments the call changed: tests of in-place functions look at them."""
        before = {index: self._dump(item) for index, item in enumerate(args) if isinstance(item, (list, dict, set))}
        reply: dict[str, Any] = {"value": function(*args, **kwargs)}
        changed = [[index, args[index]] for index, old in before.items() if self._dump(args[index]) != old]
        return {**reply, "changed": changed} if changed else reply

    def _dump(self, value: object) -> str:
        try:
            return plain.dumps(value, self._opaque)
        except plain.NotPlain:
            return ""

    def _opaque(self, value: object) -> tuple[str, object]:
        kind = type(value)
        if kind.__name__ in self.shared and self.namespace.get(kind.__name__) is kind:
            return "object", [kind.__name__, dict(vars(value))]
        if rpc.is_builtin(value):
            return "builtin", getattr(value, "__name__", "")
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return "handle", [number, kind.__name__]

    def _callback(self, number: int) -> Callable[..., object]:
        """A function of the tests: calling it asks the examiner, who may ask us before he answers."""

        def callback(*args: object, **kwargs: object) -> object:
            channel = self.task.channel
            rpc.send(channel, {"callback": number, "args": list(args), "kwargs": kwargs}, self._opaque)
            while True:
                message = rpc.receive(channel, self._revive)
                if "do" in message:
                    self._obey(message)
                elif "error" in message:
                    raise rpc.exception(message["error"], message["text"])
                else:
                    return message["returned"]

        return callback

    def _revive(self, tag: str, content: Any) -> object:
        if tag == "handle":
            return self.objects[content[0]]
        if tag == "builtin":
            return getattr(builtins, content)
        if tag == "callback":
            return self._callback(content)
        kind = self.namespace[content[0]]
        value = kind.__new__(kind)
        vars(value).update(content[1])
        return value


def _text(error: BaseException) -> str:
    try:
        return str(error)[:1000]
    except BaseException:  # an exception class of the program's own
        return ""
