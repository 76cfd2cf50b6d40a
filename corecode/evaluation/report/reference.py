"""Published figures of the method's paper (arXiv 2605.24812), shown beside ours as a reference only."""

from __future__ import annotations

BENCHMARKS_14B = ("LiveBench", "MBPP", "CodeContests", "CodeForces")
PASS_AT_1_14B: dict[str, tuple[float, ...]] = {
    "CoRe-Code": (48.4, 82.2, 34.6, 13.3),
    "GRPO": (45.5, 80.7, 33.7, 12.9),
    "CURE": (47.5, 78.5, 32.1, 12.1),
    "CodeRL+": (44.7, 80.4, 29.2, 10.4),
    "Focused-DPO": (41.9, 78.4, 31.7, 9.7),
}
"""Pass@1 in % of the systems built on Qwen2.5-14B-Coder-Instruct."""

BENCHMARKS_7B = ("MBPP", "CodeContests", "CodeForces")
ABLATION_7B: tuple[tuple[str, tuple[float, ...], str], ...] = (
    ("without RL", (68.5, 22.6, 8.9), "sft/team"),
    ("without Planner RL", (71.3, 25.4, 10.2), "coder-grpo-only/team"),
    ("without Coder RL", (72.9, 26.7, 9.7), "planner-grpo/team"),
    ("both", (73.9, 27.4, 11.7), "final/team"),
)
"""Pass@1 in % of the paper's ablation on Qwen2.5-7B-Coder-Instruct, and our arm of the same kind."""

PAPER_PROBLEMS = {"LiveBench": 128, "MBPP": 221, "CodeContests": 239, "CodeForces": 467}
