"""The rows of a run as one table: ``evaluation/rows.parquet``, from which every figure can be computed again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corecode.errors import InfrastructureError

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = Path("evaluation") / "rows.parquet"


def row_files(run: Path) -> list[Path]:
    """The files that hold a run's rows: one for each arm and temperature, else the table; empty without any."""
    return sorted((run / "evaluation").glob("*/T*.jsonl")) or [path for path in [run / TABLE] if path.is_file()]


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, JSON lines or parquet, in order. Both give equal rows for equal results.

    Raises:
        InfrastructureError: for a malformed file, naming the line.
    """
    if path.suffix == ".parquet":
        yield from _from_table(path)
        return
    # Not splitlines(): a completion may hold characters such as U+2028, which end a line only there.
    with path.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise InfrastructureError(f"{path}, line {number} is not a sample row: {error}") from error


def write_table(run: Path) -> Path | None:
    """Write all rows of a run as one table; returns its path, or None when the run has no other files of rows.

    Raises:
        InfrastructureError: for a row with a field that the table has no column for.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = [path for path in row_files(run) if path.suffix != ".parquet"]
    if not files:
        return None
    schema = _schema()
    rows = [row for path in files for row in read_rows(path)]
    strange = sorted({name for row in rows for name in row} - set(schema.names))
    if strange:
        raise InfrastructureError(f"the rows of {run} have fields that the table does not know: {', '.join(strange)}")
    table = pa.Table.from_pylist([row | {"tokens": list(row.get("tokens", {}).items())} for row in rows], schema=schema)
    partial = run / TABLE.with_suffix(".partial")
    pq.write_table(table, partial, compression="zstd")
    return partial.replace(run / TABLE)


def _from_table(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise InfrastructureError(f"{path} cannot be read as a table of rows: {error}") from error
    for row in rows:
        yield row | {"tokens": dict(row["tokens"])}


def _schema() -> pa.Schema:
    """Columns as docs/summary.md lists them."""
    import pyarrow as pa

    text, whole, real, flag = pa.string(), pa.int64(), pa.float64(), pa.bool_()
    columns = {
        "problem_id": text,
        "arm": text,
        "temperature": real,
        "sample": whole,
        "thought": text,
        "thought_valid": flag,
        "completion": text,
        "program": text,
        "verdict": text,
        "passed": whole,
        "total": whole,
        "detail": text,
        "cpu_s": real,
        "peak_mb": real,
        "steps": whole,
        "tokens": pa.map_(text, whole),
        "truncated": flag,
        "missing": text,
    }
    return pa.schema(list(columns.items()))
