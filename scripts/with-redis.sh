#!/usr/bin/env bash
# Runs a command with a real Redis at hand: one server, and a cluster of three masters.
#
#   scripts/with-redis.sh go test ./...
#
# The servers listen on free ports of 127.0.0.1, keep nothing on disk, and are gone when
# the command ends. It finds them by
#
#   PACELINE_TEST_REDIS          redis://127.0.0.1:PORT
#   PACELINE_TEST_REDIS_CLUSTER  redis-cluster://127.0.0.1:PORT?addr=...&addr=...
#
# The exit status is the command's. Needs redis-server and redis-cli, which it installs
# with apt-get if they are missing.
set -euo pipefail

if [ $# -eq 0 ]; then
  echo "usage: $0 COMMAND [ARGUMENT...]" >&2
  exit 2
fi

install_redis() {
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    sudo=(sudo)
  fi
  echo "with-redis: no redis-server here, installing it with apt-get" >&2
  "${sudo[@]}" apt-get update -qq >&2
  # The package starts a server of its own, unless told not to.
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq redis-server >&2
}
if ! command -v redis-server >/dev/null || ! command -v redis-cli >/dev/null; then
  install_redis
fi

dir=$(mktemp -d)
pids=()
stop() {
  trap - EXIT
  for pid in "${pids[@]}"; do
    kill -CONT "$pid" 2>/dev/null || true
    kill "$pid" 2>/dev/null || true
  done
  for pid in "${pids[@]}"; do
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
  echo "with-redis: $1" >&2
  cat "$dir"/*.log >&2 || true
  exit 1
}

# start OPTION... starts a server on a free port, and sets port. Others may take the
# port first, and a cluster needs the one 10000 above too: then it tries the next.
start() {
  local pid
  for _ in {1..50}; do
    port=$((20000 + RANDOM % 20000))
    mkdir "$dir/$port" 2>/dev/null || continue
    redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$dir/$port" \
      --maxmemory-policy noeviction --daemonize no "$@" >"$dir/$port.log" 2>&1 &
    pid=$!
    pids+=("$pid")
    for _ in {1..100}; do
      if ! kill -0 "$pid" 2>/dev/null; then
        continue 2
      fi
      if [ "$(redis-cli -p "$port" info server 2>/dev/null | grep -c "^process_id:$pid")" = 1 ]; then
        return
      fi
      sleep 0.1
    done
    fail "the server on port $port does not answer"
  done
  fail "no free port"
}

start
PACELINE_TEST_REDIS=redis://127.0.0.1:$port

nodes=()
for _ in 1 2 3; do
  start --cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout 5000
  nodes+=("127.0.0.1:$port")
done
redis-cli --cluster create "${nodes[@]}" --cluster-replicas 0 --cluster-yes >"$dir/cluster.log" 2>&1 ||
  fail "the cluster could not be made"
for node in "${nodes[@]}"; do
  for _ in {1..150}; do
    if redis-cli -p "${node#*:}" cluster info | grep -q '^cluster_state:ok'; then
      continue 2
    fi
    sleep 0.1
  done
  fail "the cluster's node $node is not ready"
done
PACELINE_TEST_REDIS_CLUSTER="redis-cluster://${nodes[0]}?addr=${nodes[1]}&addr=${nodes[2]}"
export PACELINE_TEST_REDIS PACELINE_TEST_REDIS_CLUSTER

status=0
"$@" || status=$?
exit "$status"
