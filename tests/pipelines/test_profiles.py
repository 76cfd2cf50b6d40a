"""Profiles: every shipped one loads, overrides change exactly what they name, and mistakes are explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from corecode.config import stored_profile
from corecode.errors import UserError
from pipelines.profiles import field_names, load_profile, shipped


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_profile_loads_and_says_what_it_needs(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.description.endswith(".")
    assert profile.hardware
    assert profile.expected_minutes


def test_a_profile_of_ones_own_needs_data_and_a_model_and_nothing_else(tmp_path: Path) -> None:
    text = "dataset: {name: dials}\nmodel: {path: owner/name}\n"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    profile = load_profile(str(tmp_path / "mine.yaml"))
    assert (profile.name, profile.effort, profile.expected_minutes) == ("mine", "", None)
    (tmp_path / "mine.yaml").write_text(f"name: other\nexpected_minutes: 1\n{text}", encoding="utf-8")
    profile = load_profile(str(tmp_path / "mine.yaml"), ["hardware=a toaster"])
    assert (profile.name, profile.effort) == ("other", "about 1 minute on a toaster")
    assert load_profile("smoke").effort.startswith("about 1 minute on 2 CPU cores")
    for name in ("../up", "two words", "", "x" * 101):
        with pytest.raises(UserError, match=r"name = .*: use at most 100 letters, digits"):
            load_profile(str(tmp_path / "mine.yaml"), [f"name={name!r}"])
    with pytest.raises(UserError, match=r"expected_minutes = inf: input should be a finite number"):
        load_profile(str(tmp_path / "mine.yaml"), ["expected_minutes=.inf"])


def test_the_laptop_profiles_are_repeatable() -> None:
    for name in ("quickstart", "quickstart-full", "smoke"):
        profile = load_profile(name)
        assert profile.sandbox.cost == "steps"
        assert profile.execution.threads == 1


def test_quickstart_full_is_the_quickstart_with_more_arms() -> None:
    labels = {"name", "description", "hardware", "expected_minutes"}
    quick, full = load_profile("quickstart"), load_profile("quickstart-full")
    assert set(quick.evaluation.arms) < set(full.evaluation.arms)
    same = full.evaluation.model_copy(update={"arms": quick.evaluation.arms})
    assert full.model_copy(update={"evaluation": same}).model_dump(exclude=labels) == quick.model_dump(exclude=labels)


def test_overrides_are_yaml_values_of_named_fields() -> None:
    overrides = ["planner_grpo.steps=5", "evaluation.temperatures=[0.2]", "sft.enabled=false", "rewards.kappa=1e-1"]
    profile = load_profile("smoke", [*overrides, "model.lora={rank: 4}"], seed=7)
    assert profile.planner_grpo.steps == 5
    assert profile.evaluation.temperatures == [0.2]
    assert profile.sft.enabled is False
    assert profile.rewards.kappa == 0.1
    assert profile.model.lora is not None
    assert profile.model.lora.rank == 4
    assert profile.seed == 7


def test_an_override_leaves_a_section_with_the_same_anchor_alone() -> None:
    base = load_profile("smoke")
    changed = load_profile("smoke", ["planner_grpo.steps=9", "planner_grpo.sampling.max_tokens=3"])
    assert changed.planner_grpo.sampling.max_tokens == 3
    assert changed.coder_grpo == base.coder_grpo


@pytest.mark.parametrize(
    ("name", "overrides", "sentence"),
    [
        ("quikstart", [], "unknown profile 'quikstart', did you mean 'quickstart'?"),
        ("nothing-like-it", [], "unknown profile 'nothing-like-it' ('corecode profiles' lists all)"),
        ("smoke", ["planner_grpo.stepps=3"], "unknown field planner_grpo.stepps, did you mean 'planner_grpo.steps'?"),
        ("smoke", ["planer_grpo.steps=3"], "unknown field planer_grpo, did you mean 'planner_grpo'?"),
        (
            "smoke",
            ["planner_grpo.group_size=1"],
            "planner_grpo.group_size = 1: input should be greater than or equal to 2",
        ),
        ("smoke", ["sft.epochs=many"], "sft.epochs = 'many': input should be a valid number"),
        ("smoke", ["sft.epochs=-1"], "sft.epochs = -1: input should be greater than 0"),
        ("smoke", ["planner_grpo.learning_rate=-1"], "planner_grpo.learning_rate = -1: input should be greater than 0"),
        ("smoke", ["model.scratch.heads=3"], "model.scratch: width has to be a multiple of twice the heads"),
        ("smoke", [f"seed={2**32}"], "seed = 4294967296: input should be less than 4294967296"),
        ("smoke", ["name.first=x"], "name is a value, not a section"),
        ("smoke", ["steps"], "write field=value"),
        ("smoke", ["sft..epochs=1"], "--set sft..epochs=1: write field=value"),
        ("smoke", ["seed=2020-01-01"], "seed = datetime.date(2020, 1, 1): input should be a valid integer"),
        ("smoke", [f"seed={'[' * 3000}"], "the value is not valid YAML (it is nested too deep)"),
        ("smoke", ["evaluation.temperatures=[]"], "evaluation.temperatures = []: list should have at least 1 item"),
        ("smoke", ["evaluation.temperatures=[0.2, 0.2]"], "[0.2, 0.2]: each may stand there once"),
        ("smoke", ["evaluation.temperatures=[-1]"], "evaluation.temperatures.0 = -1: input should be greater than"),
        ("smoke", ["model={path: ''}"], "model.path = '': string should have at least 1 character"),
        ("smoke", [f"seed={'x' * 500}"], "x...: input should be a valid integer"),
        ("smoke", ["seed=[1"], "the value is not valid YAML"),
        ("smoke", ["execution.ranks=2"], "engine torch trains in one process: ranks 2 needs engine deepspeed"),
        (
            "smoke",
            ["model.dtype=bfloat16"],
            "profile smoke: model.dtype bfloat16 loses the small updates",
        ),
        ("qwen3-4b", ["execution.ranks=1", "execution.engine=torch"], "train with execution.engine deepspeed on"),
        (
            "smoke",
            ["coder_grpo.sampling.temperature=0"],
            "the trained role needs a temperature above 0: greedy samples of a group are all alike",
        ),
        (
            "smoke",
            ["execution.device=cuda", "execution.sampler=vllm", "sft.enabled=false"],
            "profile smoke: sampler vllm loads a saved model",
        ),
        ("smoke", ["dataset.name=file"], "dataset: name 'file' needs a path"),
        ("smoke", ["evaluation.arms=[sft/alone, duo]"], "unknown arm 'duo'"),
        ("missing/profile.yaml", [], "there is no profile file missing/profile.yaml"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_field(name: str, overrides: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as raised:
        load_profile(name, overrides)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_bfloat16_weights_may_be_sampled_and_their_adapters_trained() -> None:
    for allowed in (["model.lora.rank=4"], ["sft.enabled=false", "planner_grpo.steps=0", "coder_grpo.steps=0"]):
        assert load_profile("smoke", ["model.dtype=bfloat16", *allowed]).model.dtype == "bfloat16"


def test_a_profile_of_ones_own_is_a_path(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    text = (Path(__file__).parents[2] / "pipelines" / "profiles" / "smoke.yaml").read_text(encoding="utf-8")
    own.write_text(text.replace("name: smoke", "name: own"), encoding="utf-8")
    assert load_profile(str(own)).name == "own"
    own.write_text("name: own\n", encoding="utf-8")
    with pytest.raises(UserError, match="profile own: the field dataset is missing"):
        load_profile(str(own))
    for broken, sentence in (
        ("- a list", "must hold fields"),
        ("a: [", "is not valid YAML"),
        ("a: {x: 1, x: 2}", "line 1, column 11: the field 'x' stands there twice"),
        ("? [1]\n: 2", "line 1, column 3: found unhashable key"),
    ):
        own.write_text(broken, encoding="utf-8")
        with pytest.raises(UserError, match=sentence):
            load_profile(str(own))


def test_field_names_reach_into_optional_sections() -> None:
    names = set(field_names())
    assert {"model.scratch.width", "model.lora.rank", "coder_grpo.sampling.temperature", "seed"} <= names


def test_a_profile_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="is not UTF-8 text"):
        load_profile(str(path))
    with pytest.raises(UserError, match="is a folder, not a profile file"):
        load_profile(f"{tmp_path}/")


def test_a_profile_of_another_version_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(load_profile("smoke").model_dump_json()[:-1] + ', "older": 1}', encoding="utf-8")
    with pytest.raises(UserError, match="written by another version \\(field older\\)"):
        stored_profile(path)
