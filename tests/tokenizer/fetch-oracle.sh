#!/bin/sh
# Fetches the reference implementation, npm tiktoken 1.0.22, into .cache/tiktoken. Nothing is done when it is there.
set -eu
cd "$(dirname "$0")/../.."
dest=.cache/tiktoken
[ -f "$dest/package/tiktoken_bg.wasm" ] && exit 0
command -v npm >/dev/null 2>&1 || { echo "fetch-oracle: npm is needed to fetch tiktoken" >&2; exit 1; }
mkdir -p "$dest"
archive=$(npm pack --silent --pack-destination "$dest" tiktoken@1.0.22 | tail -n 1)
tar -xzf "$dest/$archive" -C "$dest"
rm "$dest/$archive"
