"""The examples of docs/datasets.md work as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from corecode.config import DatasetConfig
from corecode.datasets.formats import FORMATS
from corecode.datasets.reading import NAMED
from corecode.problems import Problem
from pipelines.profiles import load_profile

TEXT = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")


def code(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert match is not None
    return match[1]


def test_the_example_problem_is_a_problem() -> None:
    problem = Problem.model_validate_json(code("json"))
    assert problem.program("print(1)").limits.cpu_s == 2.0


def test_every_format_flag_and_name_is_documented() -> None:
    for name in NAMED:
        assert f"`{name}`" in TEXT
    for flag in ("several_answers", "names_differ", "contradictory_tests", "duplicate_statement", "broken_tests"):
        assert f"| `{flag}` |" in TEXT
    for found in FORMATS:
        assert any(f"`{field}`" in TEXT for field in found.fields), found.name


def test_every_source_is_documented() -> None:
    for name in DatasetConfig.model_fields["name"].annotation.__args__:  # type: ignore[union-attr]
        assert f"| `{name}` |" in TEXT


@pytest.mark.parametrize("name", ["qwen2.5-coder-7b", "qwen2.5-coder-14b", "qwen3-4b"])
def test_the_documented_way_around_a_warm_up_without_data_is_a_valid_profile(name: str) -> None:
    profile = load_profile(name, ["sft.enabled=false", "dataset.sft=0"])
    assert (profile.sft.enabled, profile.dataset.sft, profile.dataset.path) == (False, 0, "data/codecontests")
    assert profile.planner_grpo.prompts_per_step % profile.execution.ranks == 0
