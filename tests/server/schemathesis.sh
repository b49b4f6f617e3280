#!/usr/bin/env bash
# schemathesis.sh PROGRAM [arguments of schemathesis run...]: the program, with a small random model, against docs/openapi.yaml.
#
# Not a part of ./check: it takes minutes and needs a package (pinned here, put under .cache/). It fails when an answer has status 500 or
# above, is not one that the description allows, or accepts what the description forbids. What the description cannot forbid (an id outside
# the vocabulary, a prompt that does not fit) may be refused.
set -euo pipefail
program=$(cd "$(dirname "$1")" && pwd)/${1##*/}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$root/.cache/schemathesis
[[ -x $venv/bin/schemathesis ]] || { python3 -m venv "$venv" && "$venv/bin/pip" -q install schemathesis==4.32.5; }

work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"; rm -rf "$work"' EXIT
(cd "$root/tests/server" && python3 -c 'import sys, dialect_kit; dialect_kit.make_model(*sys.argv[1:])' "$program" "$work/model")
"$program" serve -m "$work/model" --port 0 --ctx 1024 > "$work/out" 2> "$work/err" &
server=$!
for ((i = 0; i < 100; i++)); do [[ -s $work/out ]] && break; sleep 0.1; done
cd "$work" # where it leaves its notes
"$venv/bin/schemathesis" run "$root/docs/openapi.yaml" --url "$(cat "$work/out")" --exclude-checks positive_data_acceptance --max-examples 50 \
  --no-color "$@"
