#!/usr/bin/env bash
# Starts the demo server with wide limits and runs real, unmodified clients
# against it. KIT is the folder of the kit, KIT_ADDR the address to listen on; the
# kit's own KIT_CLIENTS picks some of its clients.
set -euo pipefail
cd "$(dirname "$0")/.."
kit=$(cd "${KIT:?}" && pwd)
addr=${KIT_ADDR:-127.0.0.1:18080}
bin=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$bin"' EXIT
go build -o "$bin/demo-server" ./cmd/demo-server
"$bin/demo-server" -addr "$addr" -tpm 10000000 -rpm 10000 -tenant none -tenant-default 0 -faults &
server=$!
for _ in $(seq 100); do
  if curl -fs "http://$addr/healthz" >/dev/null 2>&1; then break; fi
  sleep 0.1
done
KIT_ANTHROPIC_MODEL=${KIT_ANTHROPIC_MODEL:-gpt-4o-mini} "$kit/run.sh" "http://$addr"
