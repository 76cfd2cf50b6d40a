#!/usr/bin/env bash
# One role and one database for each of Dagster and MLflow; neither may open the other's. Run once, by Postgres' image
# when its volume is empty, or by hand with libpq's variables of a superuser.
set -euo pipefail
: "${DAGSTER_DB_PASSWORD:?set DAGSTER_DB_PASSWORD}" "${MLFLOW_DB_PASSWORD:?set MLFLOW_DB_PASSWORD}"

# psql reads the passwords from its environment, so that no list of processes shows them.
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\getenv dagster_password DAGSTER_DB_PASSWORD
\getenv mlflow_password MLFLOW_DB_PASSWORD
CREATE ROLE dagster LOGIN PASSWORD :'dagster_password';
CREATE ROLE mlflow LOGIN PASSWORD :'mlflow_password';
CREATE DATABASE dagster OWNER dagster;
CREATE DATABASE mlflow OWNER mlflow;
REVOKE ALL ON DATABASE dagster, mlflow FROM PUBLIC;
SQL
