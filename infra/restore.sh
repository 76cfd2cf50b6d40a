#!/usr/bin/env bash
# Put a backup of infra/backup.sh back, into stores that are empty. The same variables name the stores. Stop Dagster,
# MLflow and all runs first.
#
#   infra/restore.sh BACKUP
#
# In Postgres, the databases must be there (infra/postgres/create_databases.sh) and hold no tables; each table is given to
# the owner of its database. Each database is restored whole or not at all.
set -euo pipefail
umask 077

backup=${1:?usage: infra/restore.sh BACKUP}
fail() { echo "error: $1" >&2; exit 2; }
[[ -f $backup/SHA256SUMS ]] || fail "$backup is no backup: it has no SHA256SUMS"
(cd "$backup" && sha256sum --check --quiet SHA256SUMS) || fail "$backup is damaged"
kind=$(<"$backup/kind")

if [[ $kind == postgres ]]; then
  : "${PGHOST:?the backup is of Postgres; set PGHOST, PGUSER and PGPASSWORD}"
  [[ -n ${MLFLOW_ARTIFACTS:-} ]] || fail "set MLFLOW_ARTIFACTS to the folder of MLflow's artifacts"
  ask() { psql --no-psqlrc --no-align --tuples-only --set ON_ERROR_STOP=1 --dbname "$1" --command "$2"; }
  databases=()
  for store in dagster mlflow; do
    variable=${store^^}_DATABASE
    database=${!variable:-$store}
    tables=$(ask "$database" "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
    ((tables == 0)) || fail "the database $database is not empty; drop it, create it again and restore then"
    databases+=("$database")
  done
  if [[ -f $backup/artifacts.tar ]]; then
    mkdir -p "$MLFLOW_ARTIFACTS"
    [[ -z $(ls -A "$MLFLOW_ARTIFACTS") ]] || fail "the folder $MLFLOW_ARTIFACTS is not empty"
    tar --extract --file "$backup/artifacts.tar" --directory "$MLFLOW_ARTIFACTS"
  fi
  for store in dagster mlflow; do
    database=${databases[0]}
    databases=("${databases[@]:1}")
    owner=$(ask postgres "SELECT rolname FROM pg_roles r JOIN pg_database d ON d.datdba = r.oid WHERE datname = '$database'")
    pg_restore --no-owner --role "$owner" --single-transaction --exit-on-error --dbname "$database" "$backup/$store.dump"
  done
else
  home=${CORECODE_HOME:-.corecode}
  for store in dagster mlflow; do
    [[ ! -e $home/$store ]] || fail "$home/$store is there already; move it away and restore then"
  done
  partial=$home/.restore.partial
  rm -rf "$partial"
  mkdir -p "$partial"
  trap 'rm -rf "$partial"' EXIT
  tar --extract --file "$backup/stores.tar" --directory "$partial"
  mv "$partial"/* "$home"
fi
echo "restored $backup"
