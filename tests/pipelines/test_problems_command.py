"""``corecode problems`` as a user runs it: files in, validated problem files out, and mistakes in one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from corecode.problems import read_problems

ROOT = Path(__file__).parents[2]


def corecode(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from pipelines.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "120", **environment},
        timeout=300,
    )


def record(number: int, **changes: Any) -> dict[str, Any]:
    code = f"def add_{number}(a):\r\n    return a + {number}"
    asserts = [f"assert add_{number}({i}) == {i + number}" for i in range(3)]
    return {"task_id": number, "text": f"Add {number}.", "code": code, "test_list": asserts, **changes}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Six tasks of the form of MBPP: one without tests, one that occurs twice, one with a wrong test."""
    records = [record(2), record(3, test_list=[]), record(20), record(20), record(602), record(603)]
    records[5]["test_list"] = ["assert add_603(1) == 605", "assert add_603(1) == 604"]
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return path


def test_import_validates_and_says_what_it_left_out(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = corecode("problems", "import", source, "--out", out)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == [str(out / "tasks.jsonl")]
    problems = read_problems(out / "tasks.jsonl")
    assert {problem.id: problem.flags for problem in problems} == {
        "mbpp/2": [],
        "mbpp/20": [],
        "mbpp/602": [],
        "mbpp/603": ["broken_tests"],
    }
    assert "refused " in ended.stderr
    assert "line 2: malformed, test_list: it has no tests" in ended.stderr
    assert "refused mbpp/20: duplicate_id" in ended.stderr
    assert "flagged mbpp/603: broken_tests, its reference solutions fail: wrong_answer on 1 tests" in ended.stderr
    kept = json.loads((out / "imports" / "tasks.json").read_text(encoding="utf-8"))
    (summary,) = kept["sources"]
    assert (summary["records"], summary["problems"], summary["formats"]) == (6, 4, {"mbpp": 6})
    assert kept["digest"] == summary["digest"]
    assert summary["references_checked"]


def test_limit_split_and_one_file_for_several_sources(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plain = ("--no-check", "--out", out)
    assert corecode("problems", "import", source, "--split", "train", *plain, "--as", "train").returncode == 0
    assert [one.id for one in read_problems(out / "train.jsonl")] == ["mbpp/602", "mbpp/603"]
    ended = corecode("problems", "import", source, "--limit", 1, *plain)
    assert ended.returncode == 0
    assert "not judged" in ended.stderr
    assert [one.id for one in read_problems(out / "tasks.jsonl")] == ["mbpp/2"]
    both = corecode("problems", "import", out / "train.jsonl", out / "tasks.jsonl", source, *plain, "--as", "all")
    assert both.returncode == 0
    assert [one.id for one in read_problems(out / "all.jsonl")] == ["mbpp/602", "mbpp/603", "mbpp/2", "mbpp/20"]


def test_show_and_stats(source: Path) -> None:
    listed = corecode("problems", "show", source)
    assert listed.returncode == 0, listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines() if line.strip().startswith("mbpp/")] == [
        "mbpp/2",
        "mbpp/20",
        "mbpp/602",
        "mbpp/603",
    ]
    whole = corecode("problems", "show", source, "mbpp/602")
    assert "Your code should pass the test:\nassert add_602(0) == 602" in whole.stdout
    assert "reference solution 1 of 1:\ndef add_602(a):\n" in whole.stdout
    counted = corecode("problems", "stats", source)
    assert "4 of 6 records (mbpp)" in counted.stdout
    assert "1 malformed, 1 duplicate_id" in counted.stdout
    assert "1 contradictory_tests" not in counted.stdout
    assert "2 to 3, median 3" in counted.stdout


def test_mistakes_are_one_sentence(source: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    unknown = tmp_path / "unknown.jsonl"
    unknown.write_text('{"question": "?", "answer": 3}\n')
    broken = tmp_path / "broken.json"
    broken.write_text('[{"text": 1},')
    misspelt = tmp_path / "misspelt.jsonl"
    misspelt.write_text('{"id": "a", "statment": "Add.", "tests": [{"input": "1", "output": "1"}]}\n')
    out = ("--out", tmp_path / "out")
    for arguments, sentence in (
        (("stats", "hummaneval"), "there is no file, folder or benchmark 'hummaneval'"),
        (("stats", tmp_path / "nowhere.jsonl"), "there is no file or folder"),
        (("stats", tmp_path / "empty"), "holds no problem file"),
        (("stats", unknown), "a record with the fields answer, question is of no known format"),
        (("stats", broken), "this is not JSON"),
        (("stats", misspelt), "misspelt.jsonl, line 1: statement: Field required"),
        (("show", source, "mbpp/9"), "has no problem 'mbpp/9'"),
        (("import", source, "--split", "dev", *out), "holds no problem of the split 'dev'"),
        (("import", unknown, source, *out), "no known format"),
    ):
        ended = corecode("problems", *arguments)
        assert ended.returncode == 2, arguments
        assert sentence in ended.stderr
        assert len(ended.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists(), "nothing is half-written"


def test_the_hub_without_a_connection_names_the_remedy() -> None:
    ended = corecode("problems", "stats", "Gen-Verse/CodeContests", HF_HUB_OFFLINE="1")
    assert ended.returncode == 1
    assert "download it where there is a connection and give the file or folder instead" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
