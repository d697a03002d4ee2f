#!/usr/bin/env bash
# setup.sh DIR: builds the Go program and the Python environment into DIR.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: setup.sh DIR}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
(cd "$here/go" && go build -o "$dir/go-driver" .)
[ -x "$dir/python/bin/python" ] || python3 -m venv "$dir/python"
"$dir/python/bin/python" -m pip install --quiet --requirement "$here/python/requirements.txt"
