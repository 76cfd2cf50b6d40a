"""The table of a run's rows says what its files say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from synthetic import make_problems, make_profile, make_run, row, write_rows

from corecode.errors import InfrastructureError
from corecode.evaluation.report.build import build_report
from corecode.evaluation.table import TABLE, read_rows, row_files, write_table
from corecode.problems import write_problems

ODD = 'line\u2028separator, \x85, tab\t, quote " and 👩‍💻'


def test_the_summary_from_the_table_is_the_summary_from_the_files(tmp_path: Path) -> None:
    make_run(tmp_path, problems=12, rates={"sft/alone": 0.2, "sft/team": 0.6, "base/cot": 0.3, "base/alone": 0.2})
    profile = make_profile(["sft/alone", "sft/team", "base/alone", "base/cot"])
    summary = build_report(profile, tmp_path, {}, {})
    from_files = summary.read_bytes(), summary.with_name("metrics.json").read_bytes()
    for path in tmp_path.glob("evaluation/*/T*.jsonl"):
        path.unlink()
    assert row_files(tmp_path) == [tmp_path / TABLE]
    assert build_report(profile, tmp_path, {}, {}) == summary
    assert (summary.read_bytes(), summary.with_name("metrics.json").read_bytes()) == from_files
    assert json.loads(from_files[0])["digests"]["samples"], "the digest over all rows is part of what is equal"


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    odd = {"completion": ODD, "program": ODD, "thought": None, "thought_valid": None, "detail": ODD}
    missing = {"verdict": None, "missing": "server gone", "cpu_s": None, "peak_mb": None, "steps": None, "tokens": {}}
    first = row("p0", "base/cot", 1.0, 0, 3) | odd | {"cpu_s": 0.1 + 0.2, "tokens": {"planner": 3, "coder": 2**33}}
    write_rows(tmp_path, [first, row("p1", "base/cot", 1.0, 0, 3) | missing])
    (file,) = row_files(tmp_path)
    table = write_table(tmp_path)
    assert table is not None
    assert list(read_rows(table)) == list(read_rows(file))
    assert next(read_rows(table))["completion"] == ODD


def test_bad_files_are_named(tmp_path: Path) -> None:
    assert write_table(tmp_path) is None
    write_rows(tmp_path, [row("p0", "base/cot", 1.0, 0, 3) | {"colour": "red"}])
    with pytest.raises(InfrastructureError, match="does not know: colour"):
        write_table(tmp_path)
    (tmp_path / TABLE).write_text("no table")
    with pytest.raises(InfrastructureError, match="cannot be read as a table"):
        list(read_rows(tmp_path / TABLE))
    write_problems(tmp_path / "problems" / "test.jsonl", make_problems(1))
    for path in tmp_path.glob("evaluation/*/T*.jsonl"):
        path.write_text("{\n")
        with pytest.raises(InfrastructureError, match=re.escape(f"{path}, line 1 is not a sample row")):
            build_report(make_profile(["base/cot"], n=1), tmp_path, {}, {})
