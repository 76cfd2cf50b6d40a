"""Keep secrets out of everything that is written: tags, parameters, logs, reports and messages."""

from __future__ import annotations

import os
import re

MASK = "***"
SHORTEST = 6
"""Characters of a value that is looked for; a shorter one would mask innocent text."""
_SECRET_NAME = re.compile(r"(TOKEN|PASSWORD|PASSWD|SECRET|KEY)$", re.IGNORECASE)
_CREDENTIALS = re.compile(r"""([A-Za-z][A-Za-z0-9+.-]*://)[^\s/"'<>]+@""")


def redact(text: str) -> str:
    """The text without ``user:password@`` in addresses, and with the values of environment variables that hold a secret
    (``HF_TOKEN``, ``MLFLOW_TRACKING_PASSWORD``, ...) masked."""
    text = _CREDENTIALS.sub(r"\1", text)
    secrets = {value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= SHORTEST}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def shown_cause(error: BaseException) -> BaseException | None:
    """The error, for ``raise ... from``; None where it or its own cause holds a secret, since logs show causes."""
    link: BaseException | None = error
    while link is not None:
        if redact(str(link)) != str(link):
            return None
        link = link.__cause__ or link.__context__
    return error
