"""Decontamination: each rule on its own, what must stay, and the claims that a run's files are held to."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corecode.config import DatasetConfig
from corecode.datasets import load, read
from corecode.datasets.claims import problems_are_validated, training_data_is_decontaminated
from corecode.datasets.decontaminate import THRESHOLD, Match, N, decontaminate
from corecode.problems import Problem, Test, write_problems

WORDS = [f"word{i}" for i in range(400)]


def made(name: str, statement: str, **fields: Any) -> Problem:
    tests = [Test(input=name, output=str(i)) for i in range(3)]
    return Problem.model_validate({"id": name, "statement": statement, "tests": tests, **fields})


def matches(train: Problem, test: Problem) -> list[tuple[str, str, float]]:
    kept, found = decontaminate({"rl": [train], "test": [test]})
    assert kept["test"] == [test]
    assert kept["rl"] == ([] if found.removed else [train])
    return [(match.reason, match.test_problem, round(match.overlap, 2)) for match in found.removed]


def sentence(seed: int, length: int = 60) -> list[str]:
    return random.Random(seed).sample(WORDS, length)


def test_equality_in_its_three_degrees() -> None:
    test = made("t", "Print the sum of a, b and c!")
    assert matches(made("t", "Something else."), test) == [("same_id", "t", 1.0)]
    assert matches(made("a", "Print  the sum\nof a, b and c!"), test) == [("same_statement", "t", 1.0)]
    assert matches(made("a", "print the SUM of a b and c"), test) == [("same_words", "t", 1.0)]
    assert matches(made("a", "Print the product of a, b and c!"), test) == []


@pytest.mark.parametrize(("shared", "match"), [(60, True), (50, True), (46, True), (40, False), (20, False)])
def test_ngrams_of_the_shorter_statement_decide(shared: int, match: bool) -> None:
    """60 words have 53 n-grams of 8; of those, ``shared`` words in a row keep ``shared - 7``: 70 % are 38 of them."""
    text = sentence(1)
    copied = [*text[:shared], *sentence(2, 200)]
    found = matches(made("a", " ".join(copied)), made("t", " ".join(text)))
    assert bool(found) == match
    if match and shared < 60:
        share = (shared - N + 1) / (60 - N + 1)
        assert share >= THRESHOLD
        assert found == [("shared_ngrams", "t", round(share, 2))]


def test_an_excerpt_and_a_longer_version_match_alike() -> None:
    long, short = " ".join(sentence(3, 100)), " ".join(sentence(3, 100)[30:60])
    assert matches(made("a", long), made("t", short)) == [("shared_ngrams", "t", 1.0)]
    assert matches(made("a", short), made("t", long)) == [("shared_ngrams", "t", 1.0)]


def test_a_phrase_that_many_problems_share_is_no_match() -> None:
    phrase = ["the", "first", "line", "contains", "one", "integer", "the", "number", "of", "test", "cases"]
    first, second = [" ".join([*sentence(seed, 40), *phrase, *sentence(seed + 9, 40)]) for seed in (4, 5)]
    assert matches(made("a", first), made("t", second)) == []
    short = "Write a function to find the largest number of a given list"
    assert matches(made("a", short), made("t", f"{short} by sorting")) == [("shared_ngrams", "t", 1.0)]
    assert matches(made("a", "Find the largest number"), made("t", "Find the largest number of all")) == []


def test_the_same_tests_under_another_wording() -> None:
    tests = [Test(input=f"{i}\n", output=f"{i * i}\n") for i in range(5)]
    bare = [Test(input=f"{i}", output=f" {i * i}") for i in range(4)]
    first, second = "Square a number.", "Given n, what is n times n?"
    assert matches(made("a", first, tests=bare), made("t", second, tests=tests)) == [("same_tests", "t", 1.0)]
    assert matches(made("a", first, tests=bare[:2]), made("t", second, tests=tests)) == [], "two prove nothing"
    other = [*bare[:2], *(Test(input=f"{i}", output="0") for i in range(3))]
    assert matches(made("a", first, tests=other), made("t", second, tests=tests)) == []


def test_a_procedural_family_is_compared_by_structure() -> None:
    text = " ".join(sentence(6))
    family = {"source": "dials"}
    one, other = made("a", text, structure="x | y", **family), made("t", f"{text} more", structure="x | z", **family)
    assert matches(one, other) == [], "phrases recur by design"
    assert matches(one, other.model_copy(update={"structure": "x | y"})) == [("same_structure", "t", 1.0)]
    assert matches(one, other.model_copy(update={"structure": ""}))[0][0] == "shared_ngrams"
    assert matches(one, other.model_copy(update={"source": "else"}))[0][0] == "shared_ngrams"


def test_the_procedural_family_stays_whole() -> None:
    splits = load(DatasetConfig(name="dials", sft=400, rl=200, validation=20, test=150))
    kept, found = decontaminate(splits)
    assert kept == splits
    assert (found.compared, found.against) == ({"sft": 400, "rl": 200, "validation": 20}, 150)


def test_two_sets_with_the_same_problems_are_found_out(shared: Callable[[str], Path]) -> None:
    """The same five problems in four formats, whose statements, line ends and test lists differ."""
    lists, _ = read(shared("data/codecontests/derived_cure_format.json"))
    columns, _ = read(shared("data/derived_shapes/code_contests_deepmind_shape.jsonl"))
    codeforces, _ = read(shared("data/derived_shapes/codeforces_openr1_shape.jsonl"))
    _, found = decontaminate({"rl": lists, "test": columns})
    assert {match.problem.rpartition("/")[2] for match in found.removed} == {"2", "3", "4", "9", "19"}
    _, found = decontaminate({"rl": lists, "test": codeforces})
    assert {(m.problem.rpartition("/")[2], m.reason) for m in found.removed} == {
        (number, "shared_ngrams") for number in ("3", "4", "9", "14", "17")
    }
    _, found = decontaminate({"rl": lists[:10], "test": lists[10:]})
    assert found.removed == ()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for split in ("sft", "rl", "validation", "test"):
        write_problems(tmp_path / "problems" / f"{split}.jsonl", [made(f"{split}{i}", f"{split} {i}") for i in (0, 1)])
    source = {"records": 10, "refused": [{"problem": "line 3", "reason": "malformed", "detail": "no tests"}]}
    match = Match("rl", "x", "same_words", "test0", 1.0)
    summary: dict[str, Any] = {
        "decontamination": {"removed": [vars(match)]},
        "validation": {"sources": {"train": source}, "broken_tests": {}},
    }
    (tmp_path / "problems" / "problems.json").write_text(json.dumps(summary))
    return tmp_path


def test_the_claims_hold_for_sound_files(run: Path) -> None:
    claim = training_data_is_decontaminated(run)
    assert claim.holds
    assert "none of 6 training problems" in claim.sentence
    assert "(1 same_words)" in claim.sentence
    claim = problems_are_validated(run)
    assert claim.holds
    assert claim.figures == {"problems": 8, "flagged": 0, "refused": 1, "broken_tests": 0}
    (run / "problems" / "sft.jsonl").write_text("")
    assert training_data_is_decontaminated(run).holds, "a run without a warm-up has an empty file"


def test_the_claims_fail_on_what_training_must_not_see(run: Path) -> None:
    write_problems(run / "problems" / "rl.jsonl", [made("a", "TEST 0."), made("b", "b", flags=["several_answers"])])
    claim = training_data_is_decontaminated(run)
    assert not claim.holds
    assert claim.sentence == "1 training problems match a test problem: a of rl matches test0 (same_words)"
    assert problems_are_validated(run).figures["flagged"] == 1
    write_problems(run / "problems" / "rl.jsonl", [made("b", "b", flags=["several_answers"])])
    assert problems_are_validated(run).sentence == "every problem of rl has a flag, so none earns rewards"
    write_problems(run / "problems" / "rl.jsonl", [made("b", "b"), made("b", "c")])
    assert problems_are_validated(run).sentence == "the id 'b' occurs twice in rl"
    path = run / "problems" / "problems.json"
    path.write_text(path.read_text().replace('"records": 10', '"records": 9'))
    write_problems(run / "problems" / "rl.jsonl", [made("b", "b")])
    assert problems_are_validated(run).sentence == "train: 1 of 9 records were refused"
