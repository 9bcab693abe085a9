#!/usr/bin/env bash
# Installs what is missing by the system's package manager and says so.
# usage: need.sh COMMAND=PACKAGE[,PACKAGE]...
set -euo pipefail
missing=()
for need in "$@"; do
  if ! command -v "${need%%=*}" >/dev/null 2>&1; then
    IFS=, read -ra packages <<<"${need#*=}"
    missing+=("${packages[@]}")
  fi
done
[ ${#missing[@]} -eq 0 ] && exit 0
sudo=()
if [ "$(id -u)" -ne 0 ]; then sudo=(sudo); fi
if ! command -v apt-get >/dev/null 2>&1; then
  echo "need.sh: please install: ${missing[*]}" >&2
  exit 1
fi
echo "need.sh: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq >&2
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
