"""Whether the Hugging Face hub answers: asked once and briefly, since its own libraries try for half a minute."""

from __future__ import annotations

import threading

ANSWER_S = 3.0
"""How long the hub has for an answer, with looking up its name."""


def hub_answers() -> bool:
    """Whether the hub (``HF_ENDPOINT``, by default huggingface.co) can be asked from here; False also where
    ``HF_HUB_OFFLINE`` forbids to ask."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if constants.is_offline_mode():
        return False
    answered = threading.Event()

    def ask() -> None:
        try:
            answer = get_session().head(constants.ENDPOINT, timeout=ANSWER_S, follow_redirects=False)
        except Exception:  # whatever the transport raises: that is the answer
            return
        if answer.status_code < 500:  # a gateway answers so for a server that it does not reach
            answered.set()

    # In a thread of its own, for no timeout of a request ends the look-up of a name.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWER_S)
    return answered.is_set()
