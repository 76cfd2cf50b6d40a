"""MLflow: one parent run per pipeline run, one child per stage, found again by a deterministic key.

Rules that this module keeps:

- Tracking never stops training. A value that MLflow would refuse is changed to one that it takes (with a note), and a
  store that does not answer in the middle of a run costs a warning; metrics wait and are sent again, if need be by the
  next start.
- A run is never left RUNNING: the orchestrator ends it as FINISHED, FAILED or KILLED.
- Few calls: metrics are buffered and sent as one batch.

MLflow is imported when the first run is opened (it takes seconds).
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from corecode.errors import InfrastructureError
from pipelines import unsent
from pipelines.home import existing_home, home_folder, one_at_a_time
from pipelines.redact import reason, redact, shown_cause

if TYPE_CHECKING:
    from mlflow import MlflowClient

Status = Literal["FINISHED", "FAILED", "KILLED"]

VARIABLE = "MLFLOW_TRACKING_URI"
PAGE_VARIABLE = "CORECODE_MLFLOW_PAGE"
"""Address of the server's page for people, where it differs from the one that the stages use."""
EXPERIMENT = "core-code"
KEY_TAG = "corecode.key"
LOCAL_UI = "http://127.0.0.1:5000"
LONGEST_VALUE = 500
FLUSH_S = 2.0
RETRY_S = 15.0
"""Longer pause after a store did not answer: each attempt blocks for a while."""
PATIENCE_S = 15.0
"""How long the end of a run is tried again."""
BATCH = 100  # MLflow's limit for parameters and tags in one call; metrics may be ten times as many
log = logging.getLogger(__name__)

_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # A server that is down is noticed soon; sending again is our buffer's work.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


def entity_name(name: str) -> str:
    """A name that MLflow accepts for parameters and metrics: ``pass@1`` becomes ``pass_at_1``."""
    name = re.sub(r"[^\w./: -]", "_", name.replace("@", "_at_"))
    parts = [part if part.strip(". ") else "_" for part in name.split("/") if part]
    return "/".join(parts)[:250] or "_"


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level with dotted names; lists stay values."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            result |= flat(value, f"{prefix}{name}.")
        else:
            result[f"{prefix}{name}"] = value
    return result


def parameter_text(value: Any) -> tuple[str, bool]:
    """A parameter as one line of text, and whether it had to be cut."""
    text = redact(value if isinstance(value, str) else json.dumps(value, default=str))
    if len(text) <= LONGEST_VALUE:
        return text, False
    note = f"... [cut: {len(text)} characters, whole in parameters.json]"
    return text[: LONGEST_VALUE - len(note)] + note, True


def run_key(*parts: str) -> str:
    """The key under which a run is found again."""
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:24]


def past_store() -> Tracking:
    """The MLflow store, for commands that look at what it holds already; nothing is made.

    Raises:
        UserError: it would be in the home folder, which is not there.
    """
    store = Tracking(home_folder())
    if not store.exists:
        existing_home()
    return store


class Tracking:
    """One MLflow store: the server that MLFLOW_TRACKING_URI names, else SQLite in the home folder."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "mlflow"
        self.uri = os.environ.get(VARIABLE) or f"sqlite:///{self.folder / 'mlflow.db'}"
        self.local = self.uri.startswith("sqlite:")
        self.shown = redact(self.uri)
        """The address without credentials."""
        self.ui = LOCAL_UI if self.local else redact(os.environ.get(PAGE_VARIABLE) or self.uri).rstrip("/")
        self._client: MlflowClient | None = None
        self._experiment = ""

    @property
    def exists(self) -> bool:
        """Whether there is anything to ask: a server that was named, or tables in the home folder."""
        return not self.local or Path(self.uri.removeprefix("sqlite:///")).is_file()

    @property
    def client(self) -> MlflowClient:
        """The connected client.

        Raises:
            InfrastructureError: the store does not answer.
        """
        if self._client is None:
            self._client = self._connect()
            unsent.deliver(self)
        return self._client

    @property
    def experiment(self) -> str:
        """Id of our experiment."""
        return self._experiment or (self.client and self._experiment)

    def _connect(self) -> MlflowClient:
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        import mlflow
        from mlflow import MlflowClient

        given = os.environ.get(VARIABLE)
        mlflow.set_tracking_uri(self.uri)  # the registry looks a model up through the default store
        if given is None:
            os.environ.pop(VARIABLE, None)  # it also sets the variable, which would look like the user's wish
        for noisy in ("mlflow", "alembic"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        # A new SQLite file that several processes open at once fails in its migration.
        with self.answers(), one_at_a_time(self.folder) if self.local else nullcontext():
            client = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
            self._experiment = self._find_experiment(client)
        return client

    @contextmanager
    def answers(self) -> Generator[None]:
        """Turn whatever the client raises inside into an InfrastructureError that names the store."""
        try:
            yield
        except Exception as error:
            raise InfrastructureError(
                f"MLflow at {self.shown} does not answer; start it or unset MLFLOW_TRACKING_URI ({reason(error)})"
            ) from shown_cause(error)

    def _find_experiment(self, client: MlflowClient) -> str:
        from mlflow.exceptions import MlflowException

        found = client.get_experiment_by_name(EXPERIMENT)
        if found is not None:
            return found.experiment_id
        location = (self.folder / "artifacts").as_uri() if self.local else None
        try:
            # The kind makes MLflow's page open on training runs.
            kind = {"mlflow.experimentKind": "custom_model_development"}
            return client.create_experiment(EXPERIMENT, artifact_location=location, tags=kind)
        except MlflowException:  # another process was faster
            found = client.get_experiment_by_name(EXPERIMENT)
            if found is None:
                raise
            return found.experiment_id

    def open(self, key: str, name: str, tags: Mapping[str, str]) -> TrackedRun:
        """Find the run with this key or create it; either way it is RUNNING afterwards.

        Raises:
            InfrastructureError: the store does not answer.
        """
        client = self.client
        with self.answers():
            found = self.find(key)
            if found is not None:
                client.update_run(found, status="RUNNING")
                return TrackedRun(self, found, attached=True)
            shown = {tag: redact(value) for tag, value in tags.items()}
            created = client.create_run(self.experiment, run_name=name, tags={**shown, KEY_TAG: key})
        return TrackedRun(self, created.info.run_id, attached=False)

    def find(self, key: str) -> str | None:
        """Id of the run with this key."""
        order = ["attributes.start_time ASC"]
        found = self.client.search_runs([self.experiment], f"tags.`{KEY_TAG}` = '{key}'", max_results=1, order_by=order)
        return found[0].info.run_id if found else None

    def running(self) -> list[Any]:
        """All runs of our experiment that say they are running."""
        return list(self.client.search_runs([self.experiment], "attributes.status = 'RUNNING'"))


class TrackedRun:
    """One MLflow run. No method raises for a store that fails; see :attr:`problems`."""

    def __init__(self, store: Tracking, run_id: str, attached: bool) -> None:
        self.store = store
        self.id = run_id
        self.url = f"{store.ui}/#/experiments/{store.experiment}/runs/{run_id}"
        self.problems: list[str] = []
        """What could not be written, one sentence each."""
        self._attached = attached
        self._waiting: list[tuple[str, float, int, int]] = []
        self._sent = time.monotonic()
        self._last_step: dict[str, int] = {}
        self._latest: dict[str, tuple[str, float, int, int]] = {}

    @property
    def fresh(self) -> bool:
        """Whether it was created by this opening, rather than found."""
        return not self._attached

    def attempt(self, what: str, action: Callable[[MlflowClient], Any]) -> bool:
        """Do something with the client; False, and an entry in :attr:`problems`, when the store failed."""
        try:
            action(self.store.client)
        except Exception as error:  # whatever the store raises: training goes on
            sentence = f"MLflow: {redact(what)} was not written: {reason(error, 200)}"
            self.problems.append(sentence)
            log.warning(sentence)
            return False
        return True

    def tags(self, values: Mapping[str, str]) -> None:
        """Set tags."""
        from mlflow.entities import RunTag

        tags = [RunTag(entity_name(name), redact(value)[:5000]) for name, value in values.items()]
        self.attempt("tags", lambda client: client.log_batch(self.id, tags=tags))

    def parameters(self, values: Mapping[str, Any]) -> None:
        """Log (nested) parameters. Long ones are cut with a note, and then ``parameters.json`` holds all. A value that
        differs from one logged before is kept as a tag, since MLflow parameters never change."""
        from mlflow.entities import Param

        leaves = flat(values)
        texts = {entity_name(name): parameter_text(value) for name, value in leaves.items()}
        known: dict[str, str] = {}
        if self._attached:
            self.attempt("parameters", lambda client: known.update(client.get_run(self.id).data.params))
        changed = {name: text for name, (text, _) in texts.items() if known.get(name, text) != text}
        fresh = [Param(name, text) for name, (text, _) in texts.items() if name not in known]
        for start in range(0, len(fresh), BATCH):
            part = fresh[start : start + BATCH]
            self.attempt("parameters", lambda client, part=part: client.log_batch(self.id, params=part))
        if changed:
            self.tags({f"corecode.changed/{name}": text for name, text in changed.items()})
        if changed or any(cut for _, cut in texts.values()):
            self.document(leaves, "parameters.json")

    def metrics(self, values: Mapping[str, Any], step: int) -> None:
        """Buffer the numbers among the values as metrics of a step; :meth:`flush` sends them. Steps of a metric only
        go up: one that the run has already is not logged twice when a stage is repeated or a job continues from a
        checkpoint."""
        now = int(time.time() * 1000)
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                continue
            key = entity_name(name)
            if step > self._known_step(key):
                self._latest[key] = (key, float(value), now, step)
                self._waiting.append(self._latest[key])
                self._last_step[key] = step
        if time.monotonic() - self._sent > FLUSH_S:
            self.flush()

    def _known_step(self, key: str) -> int:
        if key not in self._last_step:
            if not self._attached:
                return -1
            history: list[Any] = []
            self.attempt(key, lambda client: history.extend(client.get_metric_history(self.id, key)))
            self._last_step[key] = max((metric.step for metric in history), default=-1)
        return self._last_step[key]

    def flush(self) -> bool:
        """Send what waits. What cannot be sent stays for the next call."""
        from mlflow.entities import Metric

        self._sent = time.monotonic()
        while self._waiting:
            part = self._waiting[: 9 * BATCH]
            batch = [Metric(*metric) for metric in part]
            if not self.attempt("metrics", lambda client, batch=batch: client.log_batch(self.id, metrics=batch)):
                self._sent += RETRY_S
                return False
            del self._waiting[: len(part)]
        return True

    def table(self, rows: Sequence[Mapping[str, Any]], name: str) -> None:
        """Log rows as a table (``name`` ends in .json); the columns are those of all rows."""
        columns = list(dict.fromkeys(column for row in rows for column in row))
        data = {column: [row.get(column) for row in rows] for column in columns}
        if rows:
            self.attempt(name, lambda client: client.log_table(self.id, data, name))

    def artifact(self, path: Path, folder: str | None = None) -> None:
        """Upload a file, or a folder's content."""
        if path.is_dir():
            self.attempt(path.name, lambda client: client.log_artifacts(self.id, str(path), folder))
        elif path.is_file():
            self.attempt(path.name, lambda client: client.log_artifact(self.id, str(path), folder))

    def document(self, value: Mapping[str, Any], name: str) -> None:
        """Log a value as a file (``name`` ends in .json)."""
        plain = json.loads(redact(json.dumps(value, default=str)))
        self.attempt(name, lambda client: client.log_dict(self.id, plain, name))

    def datasets(self, sets: Iterable[tuple[str, str, str, str]]) -> None:
        """Name the run's data: tuples of name, digest, source and context (``training``, ``test``, ...)."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = [
            DatasetInput(
                Dataset(name=name, digest=digest[:36], source_type="local", source=json.dumps({"uri": source})),
                [InputTag("mlflow.data.context", context)],
            )
            for name, digest, source, context in sets
        ]
        self.attempt("datasets", lambda client: client.log_inputs(self.id, inputs))

    def model(self, folder: Path, name: str, tags: Mapping[str, str], measured: str | None = None) -> str | None:
        """Log a model folder as a logged model of this run; return its id, None when the store failed.

        Finds the one that was logged before under the same name.

        Args:
            measured: the model has the latest values of this run's metrics that begin so ("": of all).
        """
        found: list[str] = []

        def action(client: MlflowClient) -> None:
            known = client.search_logged_models(
                [self.store.experiment], filter_string=f"name = '{name}' AND source_run_id = '{self.id}'"
            )
            if known:
                found.append(known[0].model_id)
                return
            model = client.create_logged_model(
                self.store.experiment, name=name, source_run_id=self.id, tags=dict(tags), model_type="corecode"
            )
            client.log_model_artifacts(model.model_id, str(folder))
            client.finalize_logged_model(model.model_id, "READY")
            found.append(model.model_id)
            if measured is not None:
                client.log_batch(self.id, metrics=self._measured(measured, model.model_id))

        self.attempt(f"model {name}", action)
        return found[0] if found else None

    def _measured(self, prefix: str, model_id: str) -> list[Any]:
        """The latest points of the run's own metrics as a model's: the run does not get them twice."""
        from mlflow.entities import Metric

        chosen = [point for key, point in self._latest.items() if key.startswith(prefix) and "seconds" not in key]
        return [Metric(*point, model_id=model_id) for point in chosen]

    def end(self, status: Status) -> None:
        """Send what waits and end the run. A store that does not answer is asked again for a while; then the metrics
        and the status are kept in a file, which the next start sends (:mod:`pipelines.unsent`)."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = self.flush()
            if self.attempt("status", lambda client: client.set_terminated(self.id, status)) and done:
                return
            if time.monotonic() > deadline:
                file = unsent.keep(self.store, self.id, status, self._waiting)
                self._waiting.clear()
                self.problems.append(f"MLflow does not answer: the run's end waits in {file} until the next start")
                return
            time.sleep(2)
