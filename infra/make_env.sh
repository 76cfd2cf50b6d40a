#!/usr/bin/env bash
# Make infra/.env for compose.yaml: new random passwords and the group of the Docker socket. It never replaces one, since
# the passwords of existing databases would be lost with it.
#
#   infra/make_env.sh [FILE]
set -euo pipefail
file=${1:-"$(dirname "$0")/.env"}
if [[ -e $file ]]; then
  echo "$file is there already; remove it first if its databases are gone too" >&2
  exit 2
fi
secret() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
socket=/var/run/docker.sock
group=$(stat -c %g "$socket" 2>/dev/null || true)
umask 077
{
  echo "COMPOSE_PROJECT_NAME=corecode"
  echo "POSTGRES_PASSWORD=$(secret)"
  echo "DAGSTER_DB_PASSWORD=$(secret)"
  echo "MLFLOW_DB_PASSWORD=$(secret)"
  echo "DOCKER_GID=$group"
} >"$file.partial"
mv "$file.partial" "$file"
echo "$file"
[[ -n $group ]] || echo "there is no $socket here: set DOCKER_SOCKET and DOCKER_GID in $file" >&2
