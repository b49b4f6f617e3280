#!/bin/sh
# Real clients, unchanged, against the server: the SDKs of OpenAI and Anthropic from PyPI and npm, pydantic-ai and OpenAI's Agents SDK.
# They are fetched, pinned, into .cache/sdk (about 200 MB), which is why this is a command of its own and no part of ./check.
# Usage, from anywhere: tests/server/sdk.sh PROGRAM [MODEL]     without a model: a small one with random weights, made on the spot
set -eu
[ $# -ge 1 ] || { echo "usage: $0 PROGRAM [MODEL]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
program=$(cd "$(dirname "$1")" && pwd)/${1##*/}
cache=$here/../../.cache/sdk
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
model=${2:-}
if [ ! -f "$cache/python.done" ]; then
  python3 -m venv "$cache/venv"
  "$cache/venv/bin/pip" -q install openai==3.57.0 anthropic==2.14.0 'pydantic-ai-slim[openai]==2.68.0' openai-agents==0.24.0
  touch "$cache/python.done"
fi
if [ ! -f "$cache/node.done" ]; then
  (cd "$cache" && printf '{"name":"sdk","private":true}\n' > package.json && npm install --silent openai@6.49.0 @anthropic-ai/sdk@1.14.0 zod@4.6.7)
  touch "$cache/node.done"
fi
if [ -z "$model" ]; then
  model=$cache/model
  (cd "$here" && python3 -c 'import sys, dialect_kit; dialect_kit.make_model(*sys.argv[1:])' "$program" "$model")
fi
rm -f "$cache/address"
"$program" serve -m "$model" --port 0 --ctx 4000 > "$cache/address" &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT INT TERM
while [ ! -s "$cache/address" ]; do
  kill -0 $server || exit 1
  sleep 0.1
done
url=$(grep -o 'http://[0-9.:]*' "$cache/address" | head -n 1)
failed=0
"$cache/venv/bin/python" "$here/sdk_python.py" "$url" || failed=1
node "$here/sdk_node.mjs" "$url" "$cache" || failed=1
exit $failed
