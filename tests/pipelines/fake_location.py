"""The code location with training replaced (see fake_chain.py): what test_daemon.py gives to Dagster's daemon."""

import fake_chain

fake_chain.install()

from pipelines.definitions import defs  # noqa: E402

__all__ = ["defs"]
