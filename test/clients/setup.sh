#!/usr/bin/env bash
# setup.sh DIR: builds the Go program and the Python environment into DIR, installs Node's bouncer and OpenFeature, unpacks a local API.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: setup.sh DIR}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
(cd "$here/go" && go build -o "$dir/go-driver" .)

[ -x "$dir/python/bin/python" ] || python3 -m venv "$dir/python"
"$dir/python/bin/python" -m pip install --quiet --requirement "$here/python/requirements.txt"

bouncer=$dir/node-bouncer
if ! cmp --silent "$here/node/package-lock.json" "$bouncer/package-lock.json"; then
  rm -rf "$bouncer"
  mkdir "$bouncer"
  cp "$here/node/package.json" "$bouncer"
  (cd "$bouncer" && cp "$here/node/package-lock.json" . && npm ci --silent --no-audit --no-fund) || {
    rm -rf "$bouncer"
    exit 1
  }
fi

# Debian's package is unpacked, not installed: its installation enables a daemon and registers the machine on the internet.
if [ ! -x "$dir/crowdsec/usr/bin/crowdsec" ]; then
  if command -v apt-get >/dev/null; then
    package=$(mktemp -d)
    (cd "$package" && apt-get download crowdsec)
    dpkg -x "$package"/crowdsec_*.deb "$dir/crowdsec"
    rm -r "$package"
  else
    echo "setup.sh: there is no apt-get here: tests that need a local API are left out" >&2
  fi
fi
