"""Failure kinds: for every sample exactly one word for what happened, so that the kinds add up to all samples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from corecode.evaluation.rows import SampleRow
from sandbox import Verdict

PASSED = "passed"
TRUNCATED = "truncated"


def outcome(row: SampleRow) -> str:
    """What became of a sample that is not lost.

    ``passed``; ``truncated`` when it failed and its completion was cut at the token limit (whatever the verdict on the
    stump is); else the verdict, and for a runtime error also the exception's type: ``runtime_error:ValueError``.
    """
    if row.accepted:
        return PASSED
    if row.truncated:
        return TRUNCATED
    assert row.verdict is not None  # rows that are not lost have one
    if row.verdict is Verdict.RUNTIME_ERROR:
        # A program may name its exceptions as it likes; anything but a name could be read as markup by a plot.
        kind = re.split(r"[:\n]", row.detail)[0].strip()[:60]
        named = re.fullmatch(r"[\w. ]+", kind) is not None
        return f"{row.verdict.value}:{kind if named else 'unknown'}"
    return row.verdict.value


def outcome_counts(rows: Iterable[SampleRow]) -> dict[str, int]:
    """Samples by outcome, most frequent first."""
    counts = Counter(outcome(row) for row in rows)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


_WORDS = {
    PASSED: "passed",
    TRUNCATED: "cut at the token limit",
    Verdict.WRONG_ANSWER.value: "wrong answer",
    Verdict.TIME_LIMIT.value: "time limit",
    Verdict.MEMORY_LIMIT.value: "memory limit",
    Verdict.OUTPUT_LIMIT.value: "output limit",
    Verdict.NO_CODE.value: "no code",
}


def in_words(kind: str) -> str:
    """An outcome as a reader calls it; a runtime error by the name of its exception."""
    return _WORDS.get(kind) or kind.removeprefix(f"{Verdict.RUNTIME_ERROR.value}:")
