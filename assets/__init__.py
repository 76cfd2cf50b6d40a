"""What Dagster materialises: one thin file per stage, and the checks that state each stage's claims."""

STAGES = (
    *("problems", "sft_warmup", "planner_grpo", "coder_grpo"),
    *("baselines", "evaluation", "collaboration_gain", "champion"),
)
"""Names of all stages, in the order in which a run goes through them."""
