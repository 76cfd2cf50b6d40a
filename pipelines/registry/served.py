"""The model that MLflow loads and serves: statements in, thoughts and programs out.

MLflow keeps this file and runs it when the model is loaded ("models from code"), so that nothing is pickled. The code
of ``corecode`` and ``sandbox`` lies beside it in the version.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlflow
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.pyfunc.model import PythonModel, PythonModelContext

if TYPE_CHECKING:
    from corecode.stored import StoredTeam


class TeamModel(PythonModel):
    """A team as MLflow sees it."""

    team: StoredTeam

    def load_context(self, context: PythonModelContext) -> None:
        """Load the models of all roles."""
        from corecode.stored import StoredTeam

        self.team = StoredTeam(Path(context.artifacts["team"]).parent)

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Answer the statements in the first column; one row each, with ``thought`` and ``program``.

        A part that an answer does not hold is an empty text. ``params``: ``seed`` of the sampling.

        Raises:
            MlflowException: a statement is no text, empty, or longer than the models can read (over HTTP: status 400).
        """
        from corecode.errors import UserError

        cells = [cell for value in model_input.iloc[:, 0] for cell in (value if isinstance(value, list) else [value])]
        for number, cell in enumerate(cells):
            if not isinstance(cell, str) or not cell.strip():
                raise MlflowException.invalid_parameter_value(f"problem {number} is not a statement, but {cell!r:.80}")
        try:
            answers = self.team.answer(cells, int((params or {}).get("seed") or 0))
        except UserError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error
        return pd.DataFrame(
            {"thought": [one.thought or "" for one in answers], "program": [one.program or "" for one in answers]}
        )


mlflow.models.set_model(TeamModel())
