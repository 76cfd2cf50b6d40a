"""Keep secrets out of everything that is written: tags, parameters, logs, reports and messages."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote

MASK = "***"
SHORTEST = 6
"""Characters of a value that is looked for; a shorter one would mask innocent text."""
_SECRET_NAME = re.compile(r"(TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|KEY|_PAT)$", re.IGNORECASE)
# A password may hold slashes and @ though it should not; what stands behind a port is a path and may hold @ too.
_CREDENTIALS = re.compile(r"""([A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/"'<>]+|[^\s/"'<>:@\[]*:(?!\d+[/?#])[^\s"'<>]+)@""")
_PASSWORD_OF_ADDRESS = re.compile(r"://[^\s:/@]*:(.+)@")


def redact(text: str) -> str:
    """The text without ``user:password@`` in addresses, and with the secrets of the environment masked: values of
    variables such as ``HF_TOKEN`` or ``MLFLOW_TRACKING_PASSWORD``, and passwords in addresses that a variable holds."""
    forms = {form for secret in _secrets() for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, MASK)
    return _CREDENTIALS.sub(r"\1", text)


def reason(error: object, longest: int = 300) -> str:
    """What an error says, on one line. Its secrets are masked before it is cut, for half of one would not be found, and
    before its lines are joined, for a key may have several."""
    return " ".join(redact(str(error)).split())[:longest]


def _secrets() -> Iterator[str]:
    for name, value in os.environ.items():
        found = _PASSWORD_OF_ADDRESS.search(value)
        if found:
            yield found[1]
        if _SECRET_NAME.search(name):
            yield value


def _forms(secret: str) -> set[str]:
    """How a secret looks in a text, in an address, in JSON and in a message of Python."""
    texts = {secret, unquote(secret)}
    escaped = {form for text in texts for form in (json.dumps(text), json.dumps(text, ensure_ascii=False), repr(text))}
    forms = texts | {quote(text, safe=safe) for text in texts for safe in ("", "/")} | {form[1:-1] for form in escaped}
    return {form for form in forms if len(form) >= SHORTEST}


def shown_cause(error: BaseException) -> BaseException | None:
    """The error, for ``raise ... from``; None where it or its own cause holds a secret, since logs show causes."""
    link: BaseException | None = error
    while link is not None:
        if redact(str(link)) != str(link):
            return None
        link = link.__cause__ or link.__context__
    return error
