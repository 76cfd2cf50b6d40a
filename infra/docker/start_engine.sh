#!/usr/bin/env bash
# Start a private Docker engine without systemd: own socket, data, pidfile; no network setup. Needs root and dockerd
# (Debian: apt-get install --no-install-recommends docker.io).
#
#   infra/docker/start_engine.sh [FOLDER]     default /tmp/corecode-docker; starts it, waits until it answers
#   export DOCKER_HOST=unix://FOLDER/docker.sock
#   infra/docker/start_engine.sh stop [FOLDER]
set -euo pipefail

action=start
if [[ ${1:-} == stop ]]; then
  action=stop
  shift
fi
folder=${1:-/tmp/corecode-docker}
if ((${#folder} > 60)); then
  echo "the folder $folder is too long: the engine's sockets in it may have at most 104 characters" >&2
  exit 2
fi
socket=$folder/docker.sock
pidfile=$folder/docker.pid

# Python, which this project needs anyway, instead of curl, which a slim machine lacks.
answers() {
  python3 - "$socket" 2>/dev/null <<'PYTHON'
import socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.settimeout(2)
    connection.connect(sys.argv[1])
    connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
    sys.exit(b" 200 " not in connection.recv(64))
PYTHON
}
running() { [[ -s $pidfile ]] && kill -0 "$(cat "$pidfile")" 2>/dev/null; }

if [[ $action == stop ]]; then
  if running; then
    pid=$(cat "$pidfile")
    kill "$pid"
    for _ in $(seq 300); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    if kill -0 "$pid" 2>/dev/null; then
      echo "the engine $pid does not end" >&2
      exit 1
    fi
  fi
  # An engine mounts its folders onto themselves and leaves them so; nested ones first.
  awk -v folder="$folder/" 'index($2, folder) == 1 { print $2 }' /proc/mounts | sort -r | while read -r mounted; do
    umount "$mounted"
  done
  exit 0
fi

if [[ $EUID -ne 0 ]]; then
  echo "starting a Docker engine needs root" >&2
  exit 1
fi
if ! command -v dockerd >/dev/null; then
  echo "dockerd is missing: apt-get install --no-install-recommends docker.io" >&2
  exit 1
fi
if running && answers; then
  echo "unix://$socket"
  exit 0
fi

mkdir -p "$folder"
# An engine that was killed takes its containerd down a moment later; a new one would mistake the dying one for its own.
containerd=$folder/exec/containerd/containerd.pid
dying() { [[ -s $containerd ]] && tr '\0' ' ' <"/proc/$(cat "$containerd")/cmdline" 2>/dev/null | grep -qF "$folder/"; }
for _ in $(seq 50); do
  dying || break
  sleep 0.1
done
if dying; then kill -9 "$(cat "$containerd")"; fi
# Their pidfiles and the socket would keep the new engine from starting.
rm -f "$pidfile" "$socket" "$containerd"
setsid dockerd --host "unix://$socket" --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$pidfile" \
  --iptables=false --ip6tables=false --bridge=none ${CORECODE_DOCKER_OPTIONS:-} \
  >>"$folder/dockerd.log" 2>&1 </dev/null &
engine=$!
for _ in $(seq 300); do
  if answers; then
    echo "unix://$socket"
    exit 0
  fi
  kill -0 "$engine" 2>/dev/null || break
  sleep 0.1
done
echo "the engine ended or did not answer in time; the end of $folder/dockerd.log:" >&2
tail -n 20 "$folder/dockerd.log" >&2
exit 1
