#!/usr/bin/env bash
# Runs every fuzz target for a while. usage: fuzz.sh TIME
set -euo pipefail
cd "$(dirname "$0")/.."
git grep -lE '^func Fuzz[A-Z]' -- '*_test.go' | while read -r file; do
  grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | cut -d' ' -f2 | while read -r target; do
    echo "== $file $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-20s}" "./$(dirname "$file")"
  done
done
