#!/usr/bin/env bash
# Back up both stores, Dagster's and MLflow's, with MLflow's artifacts, into a new folder under TARGET; the last line
# printed is that folder. Nothing has to be stopped: databases are copied as they are at one moment, and artifacts after
# them, so that whatever MLflow's copy knows of is there.
#
#   infra/backup.sh TARGET
#
# Stores in Postgres: PGHOST (with PGPORT, PGUSER, PGPASSWORD) names the server; DAGSTER_DATABASE and MLFLOW_DATABASE are
# dagster and mlflow unless set; MLFLOW_ARTIFACTS is the folder of the artifacts (one in a bucket is not copied).
# Otherwise: the SQLite stores under CORECODE_HOME (.corecode unless set).
set -euo pipefail
umask 077

target=${1:?usage: infra/backup.sh TARGET}
name=corecode-$(date -u +%Y%m%dT%H%M%SZ)
[[ ! -e $target/$name ]] || { echo "error: $target/$name is there already" >&2; exit 2; }
partial=$target/.$name.partial
mkdir -p "$target"
mkdir "$partial"  # fails where another backup has begun in the same second
trap 'rm -rf "$partial"' EXIT

if [[ -n ${PGHOST:-} ]]; then
  [[ -n ${MLFLOW_ARTIFACTS:-} ]] || { echo "error: set MLFLOW_ARTIFACTS to the folder of MLflow's artifacts" >&2; exit 2; }
  echo postgres >"$partial/kind"
  for store in dagster mlflow; do
    database=${store^^}_DATABASE
    pg_dump --format custom --no-owner --file "$partial/$store.dump" "${!database:-$store}"
  done
  if [[ $MLFLOW_ARTIFACTS == *://* ]]; then
    echo "the artifacts in $MLFLOW_ARTIFACTS are not part of this backup; keep versions of the bucket" >&2
  else
    # 1: a file came, grew or went meanwhile. The copy of MLflow's database does not know of it yet, or no longer.
    tar --create --file "$partial/artifacts.tar" --directory "$MLFLOW_ARTIFACTS" . || (($? == 1))
  fi
else
  home=${CORECODE_HOME:-.corecode}
  [[ -d $home ]] || { echo "error: there is no $home; set CORECODE_HOME or PGHOST" >&2; exit 2; }
  echo sqlite >"$partial/kind"
  # Every database first, then every other file.
  python3 - "$home" "$partial/stores" <<'PYTHON'
import pathlib, shutil, sqlite3, sys
home, copy = map(pathlib.Path, sys.argv[1:])

def files():
    found = [path for store in ("dagster", "mlflow") for path in sorted((home / store).rglob("*")) if path.is_file()]
    return [path for path in found if not path.name.endswith((".db-wal", ".db-shm", ".db-journal", ".partial"))]

def place(path):
    to = copy / path.relative_to(home)
    to.parent.mkdir(parents=True, exist_ok=True)
    return to

for path in files():
    if path.suffix == ".db":
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        target = sqlite3.connect(place(path))
        with target:
            source.backup(target)
        source.close()
        target.close()
for path in files():  # looked for again: what came while the databases were copied may be known to them
    if path.suffix != ".db" and path.name != "lock":
        try:
            shutil.copy2(path, place(path))
        except FileNotFoundError:
            pass  # removed since it was found
PYTHON
  tar --create --file "$partial/stores.tar" --directory "$partial/stores" .
  rm -rf "$partial/stores"
fi

(cd "$partial" && sha256sum -- * >SHA256SUMS)
mv "$partial" "$target/$name"
trap - EXIT
echo "$target/$name"
