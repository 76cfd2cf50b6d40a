"""The registry: which team is the champion, how a run's team takes its place, and how one goes back.

One registered model in MLflow, ``corecode``. A version is a whole team: both roles' folders, prompts, sampling, profile
and the scores it was measured with, as a model that MLflow serves.

- :mod:`pipelines.registry.team` puts a run's team and its scores together.
- :mod:`pipelines.registry.gate` compares two teams' scores.
- :mod:`pipelines.registry.package` makes MLflow's model of a team; :mod:`pipelines.registry.served` is that model.
- :mod:`pipelines.registry.ledger` reads the versions as a history and keeps the aliases true to it.
- :mod:`pipelines.registry.promotion` is what commands and stages call.
"""

MODEL = "corecode"
"""Name of the registered model in MLflow."""
