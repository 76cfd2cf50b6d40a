"""HumanEval and your own files: what is read, how it is dealt to the splits, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corecode.config import DatasetConfig
from corecode.datasets import choose, humaneval, load
from corecode.errors import UserError
from corecode.problems import Problem, Reference, Test, write_problems

SMALL = DatasetConfig(name="humaneval", seed=3, sft=40, rl=60, validation=16, test=60)


def test_the_splits_are_disjoint_and_follow_the_seed() -> None:
    chosen = choose(SMALL)
    splits = chosen.splits
    ids = {split: [problem.id for problem in problems] for split, problems in splits.items()}
    assert {split: len(problems) for split, problems in ids.items()} == {
        "sft": 40,
        "rl": 59,
        "validation": 16,
        "test": 60,
    }
    # Two problems of the benchmark differ in nothing but the kind of bracket.
    (match,) = chosen.decontamination.removed
    assert (match.split, match.reason) == ("rl", "same_words")
    assert {match.problem, match.test_problem} == {"HumanEval/56", "HumanEval/61"}
    assert set(ids["sft"]) < set(ids["rl"])
    assert len({*ids["rl"], *ids["validation"], *ids["test"]}) == 135
    assert all(problem.split == split for split, problems in splits.items() for problem in problems)
    assert load(SMALL) == splits
    assert [problem.id for problem in load(SMALL.model_copy(update={"seed": 4}))["test"]] != ids["test"]


def test_more_problems_than_there_are_is_a_mistake() -> None:
    with pytest.raises(UserError, match=r"164 problems.* asks for 177 .*lower one"):
        load(SMALL.model_copy(update={"test": 101}))


def test_every_problem_keeps_all_that_its_check_says() -> None:
    problems = {problem.id: problem for problem in humaneval.read()}
    assert len(problems) == 164
    first = problems["HumanEval/0"]
    assert (first.kind, len(first.tests)) == ("asserts", 7)
    wanted = "assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.05) == False"
    assert f"    {wanted}\n\n\ncheck(has_close_elements)\n" in first.tests[1].code
    # Independent asserts are tests of their own; a loop over random cases stays one.
    assert len(problems["HumanEval/8"].tests) == 5
    assert len(problems["HumanEval/32"].tests) == 1
    assert "assert True" not in "".join(test.code for problem in problems.values() for test in problem.tests)


@pytest.mark.parametrize("whole", [True, False])
def test_references_pass_and_wrong_programs_fail_as_body_and_as_whole_function(whole: bool) -> None:
    """Runs the benchmark's own references (trusted text) in this process."""
    for problem in humaneval.read():
        program = problem.references[0].program
        assert '"""' not in program.split(f"def {problem.entry_point}(")[1], problem.id
        function = program[program.index(f"def {problem.entry_point}(") :]
        body = function.split(":\n", 1)[1]
        assert outcomes(problem, program) == {True}, problem.id
        assert outcomes(problem, function if whole else body) == {True}, problem.id
        assert outcomes(problem, f"def {problem.entry_point}(*a):\n    return 'x'" if whole else "    return 'x'") != {
            True
        }


def outcomes(problem: Problem, answer: str) -> set[bool]:
    """Which results the tests of an answer have."""
    results: set[bool] = set()
    for test in problem.tests:
        scope: dict[str, object] = {}
        exec(compile(problem.whole(answer), problem.id, "exec"), scope)
        try:
            exec(test.code, scope)
            results.add(True)
        except (AssertionError, TypeError):
            results.add(False)
    return results


def problem(name: str, **fields: object) -> Problem:
    return Problem.model_validate(
        {
            "id": name,
            "statement": f"Print the number {name}.",
            "tests": [Test(input="1", output=name)],
            "references": [Reference(program=f"print('{name}')")],
            **fields,
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split in ("sft", "rl", "validation", "test"):
        write_problems(tmp_path / f"{split}.jsonl", [problem(f"{split}{i}") for i in range(4)])
    return tmp_path


def own(folder: Path, **sizes: int) -> DatasetConfig:
    return DatasetConfig(name="file", path=str(folder), **{"sft": 4, "rl": 4, "validation": 4, "test": 4, **sizes})  # type: ignore[arg-type]


def test_own_files_are_read_with_derived_thoughts(folder: Path) -> None:
    splits = load(own(folder))
    assert [p.id for p in splits["sft"]] == ["sft0", "sft1", "sft2", "sft3"]
    assert {p.split for p in splits["validation"]} == {"validation"}
    thought = splits["sft"][0].references[0].thought
    assert thought is not None
    assert "1. print 'sft0'" in thought
    assert splits["rl"][0].references[0].thought is None
    fewer = load(own(folder, test=2))["test"]
    assert len(fewer) == 2
    assert load(own(folder, test=2))["test"] == fewer


def test_given_thoughts_are_kept(folder: Path) -> None:
    given = Reference(program="print(1)", thought="my own words")
    write_problems(folder / "sft.jsonl", [problem(f"sft{i}", references=[given]) for i in range(4)])
    assert load(own(folder))["sft"][0].references == [given]


def test_flagged_problems_get_no_reward(folder: Path) -> None:
    write_problems(folder / "rl.jsonl", [problem("a"), problem("b", flags=["several_answers"])])
    assert [p.id for p in load(own(folder, rl=1))["rl"]] == ["a"]
    with pytest.raises(UserError, match=r"holds 1 usable problems \(1 more are flagged\), but dataset.rl asks for 2"):
        load(own(folder, rl=2))


def test_mistakes_in_own_files_are_named(folder: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        load(own(folder / "nowhere"))
    with pytest.raises(UserError, match=r"test\.jsonl holds 4 usable problems, but dataset.test asks for 5"):
        load(own(folder, test=5))
    write_problems(folder / "sft.jsonl", [problem(f"sft{i}", references=[]) for i in range(4)])
    with pytest.raises(UserError, match="'sft0' has no reference program"):
        load(own(folder))
    write_problems(folder / "sft.jsonl", [problem(f"s{i}", references=[Reference(program="print(")]) for i in range(4)])
    with pytest.raises(UserError, match="no thought can be derived for problem 's0'"):
        load(own(folder))
    (folder / "sft.jsonl").unlink()
    with pytest.raises(UserError, match="cannot read the problem file"):
        load(own(folder))


def test_training_problems_that_are_test_problems_are_removed(folder: Path) -> None:
    write_problems(folder / "test.jsonl", [problem("rl2"), *(problem(f"t{i}") for i in range(3))])
    chosen = choose(own(folder, rl=3))
    assert [p.id for p in chosen.splits["rl"]] == ["rl0", "rl1", "rl3"]
    assert [(m.problem, m.reason) for m in chosen.decontamination.removed] == [("rl2", "same_id")]
    with pytest.raises(
        UserError, match=r"holds 3 usable problems \(1 more match a test problem\), but dataset.rl asks"
    ):
        load(own(folder))
    copied = problem("other", statement="Print  the number\nvalidation1.")
    write_problems(folder / "test.jsonl", [copied, *(problem(f"t{i}") for i in range(3))])
    chosen = choose(own(folder, validation=3))
    assert [(m.split, m.reason) for m in chosen.decontamination.removed] == [("validation", "same_statement")]


def test_a_validation_problem_that_is_trained_on_is_refused(folder: Path) -> None:
    write_problems(folder / "validation.jsonl", [problem("rl2"), *(problem(f"v{i}") for i in range(3))])
    with pytest.raises(UserError, match="'rl2' of split 'validation' is also in split 'rl'"):
        load(own(folder))


def test_splits_without_a_file_are_dealt_from_train(folder: Path) -> None:
    for split in ("sft", "rl", "validation"):
        (folder / f"{split}.jsonl").unlink()
    lines = [problem(f"p{i}", references=[] if i % 2 else [Reference(program=f"print({i})")]) for i in range(12)]
    write_problems(folder / "train.jsonl", lines)
    sizes = {"sft": 2, "rl": 8, "validation": 3}
    chosen = choose(own(folder, **sizes))
    ids = {split: {p.id for p in problems} for split, problems in chosen.splits.items()}
    assert {split: len(found) for split, found in ids.items()} == {**sizes, "test": 4}
    assert not ids["validation"] & (ids["rl"] | ids["sft"])
    assert all(p.references for p in chosen.splits["sft"])
    assert choose(own(folder, **sizes)) == chosen
    assert {p.id for p in load(own(folder, **sizes, seed=1))["validation"]} != ids["validation"]
    assert load(own(folder, **{**sizes, "sft": 0}))["sft"] == []
    # A warm-up file that holds the same problems gives up those that validation takes.
    write_problems(folder / "sft.jsonl", [p.model_copy(update={"id": f"other/{p.id}"}) for p in lines if p.references])
    apart = load(own(folder, **sizes))
    assert not {p.statement for p in apart["validation"]} & {p.statement for p in apart["sft"]}
    (folder / "sft.jsonl").unlink()
    (folder / "test.jsonl").unlink()
    with pytest.raises(UserError, match=r"cannot read the problem file .*test\.jsonl"):
        load(own(folder, **sizes))


def test_mbpp_keeps_the_splits_of_its_authors(shared: Callable[[str], Path]) -> None:
    path = str(shared("data/mbpp/mbpp.jsonl"))
    chosen = choose(DatasetConfig(name="mbpp", path=path, sft=300, rl=350, validation=80, test=500))
    numbers = {split: {int(p.id.split("/")[1]) for p in found} for split, found in chosen.splits.items()}
    assert numbers["test"] == set(range(11, 511))
    assert numbers["validation"] < set(range(511, 601))
    assert numbers["rl"] | numbers["sft"] <= set(range(601, 975))
    removed = {(m.problem, m.test_problem) for m in chosen.decontamination.removed}
    assert removed == {
        ("mbpp/569", "mbpp/104"),
        ("mbpp/602", "mbpp/217"),
        ("mbpp/649", "mbpp/170"),
        ("mbpp/704", "mbpp/248"),
        ("mbpp/928", "mbpp/427"),
    }
    assert all(p.references[0].thought for p in chosen.splits["sft"])
    assert {name: summary.problems for name, summary in chosen.imports.items()} == {
        "train": 374,
        "validation": 90,
        "test": 500,
    }
