"""Sample rows: what an evaluation leaves behind for every problem, arm, temperature and sample.

A row with ``missing`` set says that infrastructure failed. It is neither a success nor a failure and enters no mean;
a problem with such a row, or with fewer rows than samples were asked for, is *incomplete* for that arm.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from corecode.arms import ARMS
from corecode.errors import InfrastructureError, UserError
from corecode.evaluation.metrics import Ints
from corecode.evaluation.statistics import Floats
from corecode.evaluation.table import read_rows, row_files
from sandbox import Verdict

NOT_REPEATABLE = ("cpu_s", "peak_mb")
"""Fields that differ between two runs of the same seed; no digest covers them."""


class SampleRow(BaseModel):
    """One sample of one arm on one problem (docs/summary.md). The completion itself is not kept in memory."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    problem_id: str
    arm: str
    temperature: float
    sample: int
    thought: str | None = None
    thought_valid: bool | None = None
    program: str | None = None
    verdict: Verdict | None = None
    passed: int = 0
    total: int = 0
    cpu_s: float | None = None
    peak_mb: float | None = None
    steps: int | None = None
    detail: str = ""
    tokens: dict[str, int] = {}
    truncated: bool = False
    missing: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> SampleRow:
        """A score needs a verdict and tests: neither an outage nor an empty test list may pass as a score."""
        if self.lost:
            return self
        if self.verdict is None:
            raise ValueError("a row without 'missing' needs a verdict")
        if self.total <= 0:
            raise ValueError("total is 0: an empty test list is an error of the data, not a score")
        if not 0 <= self.passed <= self.total:
            raise ValueError(f"passed {self.passed} of {self.total} tests")
        if (self.verdict is Verdict.ACCEPTED) != (self.passed == self.total):
            raise ValueError(f"verdict {self.verdict.value} with {self.passed} of {self.total} tests passed")
        return self

    @property
    def lost(self) -> bool:
        """True when infrastructure failed: nothing is known about this sample."""
        return self.missing is not None or self.verdict is Verdict.SANDBOX_ERROR

    @property
    def accepted(self) -> bool:
        return not self.lost and self.verdict is Verdict.ACCEPTED

    @property
    def ratio(self) -> float:
        """Share of the tests passed; only for rows that are not lost."""
        return self.passed / self.total


@dataclass(frozen=True)
class ArmSamples:
    """All samples of one arm at one temperature, on the problems of the run in a fixed order."""

    arm: str
    temperature: float
    n: int
    """Samples a problem that were asked for."""
    problem_ids: tuple[str, ...]
    rows_P: tuple[tuple[SampleRow, ...], ...]
    """For each problem its rows by sample number, lost ones included."""
    complete_P: npt.NDArray[np.bool_]
    """Problems with n rows, none lost."""

    @property
    def description(self) -> str:
        known = ARMS.get(self.arm)
        return known.description if known else self.arm

    def scored(self) -> Iterator[SampleRow]:
        """Rows that are not lost, of all problems."""
        return (row for rows in self.rows_P for row in rows if not row.lost)

    def complete(self, mask_P: npt.NDArray[np.bool_] | None = None) -> list[tuple[SampleRow, ...]]:
        """Rows of the complete problems (of those in ``mask_P`` only, where it is given)."""
        keep_P = self.complete_P if mask_P is None else mask_P & self.complete_P
        return [rows for rows, keep in zip(self.rows_P, keep_P, strict=True) if keep]

    def correct_P(self, mask_P: npt.NDArray[np.bool_] | None = None) -> Ints:
        """Number of accepted samples of each complete problem."""
        return np.array([sum(row.accepted for row in rows) for rows in self.complete(mask_P)], dtype=np.int64)

    def ratios_PN(self, mask_P: npt.NDArray[np.bool_] | None = None) -> Floats:
        """Share of passed tests of each sample of each complete problem."""
        rows = self.complete(mask_P)
        return np.array([[row.ratio for row in problem] for problem in rows], dtype=np.float64).reshape(-1, self.n)

    def missing_reasons(self) -> dict[str, int]:
        """Why samples are lost, most frequent first; samples without any row count as ``no result``."""
        reasons = Counter(row.missing or "sandbox_error" for rows in self.rows_P for row in rows if row.lost)
        absent = self.n * len(self.problem_ids) - sum(len(rows) for rows in self.rows_P)
        if absent:
            reasons["no result"] += absent
        return dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))

    @property
    def missing_samples(self) -> int:
        return self.n * len(self.problem_ids) - sum(1 for _ in self.scored())

    def restricted(self, ids: Sequence[str]) -> ArmSamples:
        """The same arm on some of the problems, in the order given."""
        place = {problem: i for i, problem in enumerate(self.problem_ids)}
        chosen = [place[problem] for problem in ids]
        return ArmSamples(
            self.arm,
            self.temperature,
            self.n,
            tuple(ids),
            tuple(self.rows_P[i] for i in chosen),
            self.complete_P[chosen],
        )


@dataclass(frozen=True)
class Samples:
    """All samples of a run."""

    n: int
    problem_ids: tuple[str, ...]
    """Problems that at least one arm was evaluated on, sorted."""
    by_arm: dict[tuple[str, float], ArmSamples]
    """Ordered: arms as in ``corecode.arms``, then by temperature."""
    digest: str
    """sha256 over all rows without the fields of ``NOT_REPEATABLE``."""

    @property
    def arms(self) -> list[str]:
        return list(dict.fromkeys(arm for arm, _ in self.by_arm))

    @property
    def temperatures(self) -> list[float]:
        return sorted({temperature for _, temperature in self.by_arm})

    def get(self, arm: str, temperature: float) -> ArmSamples | None:
        return self.by_arm.get((arm, temperature))

    def restricted(self, ids: Sequence[str]) -> Samples:
        """All arms on some of the problems."""
        return Samples(
            self.n, tuple(ids), {key: samples.restricted(ids) for key, samples in self.by_arm.items()}, self.digest
        )


def load_samples(run: Path, n: int) -> Samples:
    """Read all rows of a run, from its files of rows or, where only that is there, its table.

    Args:
        run: the run folder.
        n: samples a problem that the profile asked for.

    Raises:
        UserError: when there is no row.
        InfrastructureError: for a malformed, contradictory or repeated row, naming file and line.
    """
    found: dict[tuple[str, float], dict[str, dict[int, SampleRow]]] = {}
    digest = hashlib.sha256()
    for path in row_files(run):
        for number, data in enumerate(read_rows(path), 1):
            row = _checked(path, number, data, n, digest)
            problem = found.setdefault((row.arm, row.temperature), {}).setdefault(row.problem_id, {})
            if row.sample in problem:
                raise InfrastructureError(
                    f"{path}, line {number}: sample {row.sample} of {row.problem_id!r} occurs twice; delete the"
                    " file and evaluate this arm again"
                )
            problem[row.sample] = row
    if not found:
        raise UserError(f"{run} holds no evaluation results; run the evaluation stage first")
    ids = tuple(sorted({problem for problems in found.values() for problem in problems}))
    order = {arm: place for place, arm in enumerate(ARMS)}
    keys = sorted(found, key=lambda key: (order.get(key[0], len(order)), key))
    return Samples(n, ids, {key: _arm_samples(key, found[key], ids, n) for key in keys}, digest.hexdigest())


def _arm_samples(
    key: tuple[str, float], problems: dict[str, dict[int, SampleRow]], ids: tuple[str, ...], n: int
) -> ArmSamples:
    rows_P = tuple(tuple(row for _, row in sorted(problems.get(problem, {}).items())) for problem in ids)
    complete_P = np.array([len(rows) == n and not any(row.lost for row in rows) for rows in rows_P], dtype=np.bool_)
    return ArmSamples(*key, n, ids, rows_P, complete_P)


def _checked(path: Path, number: int, data: dict[str, Any], n: int, digest: Any) -> SampleRow:
    try:
        row = SampleRow.model_validate(data)
    except ValidationError as error:
        raise InfrastructureError(f"{path}, line {number} is not a sample row: {error.errors()[0]['msg']}") from error
    if not 0 <= row.sample < n:
        raise InfrastructureError(f"{path}, line {number}: sample {row.sample}, but the profile asks for {n} a problem")
    for field in NOT_REPEATABLE:
        data.pop(field, None)
    digest.update(json.dumps(data, sort_keys=True).encode() + b"\n")
    return row
