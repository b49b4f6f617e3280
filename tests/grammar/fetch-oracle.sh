#!/bin/sh
# Fetches jsonschema 4.26.0 with what it needs into .cache/jsonschema, pinned. Nothing is done when it is there.
set -eu
cd "$(dirname "$0")/../.."
dest=.cache/jsonschema
[ -f "$dest/jsonschema/__init__.py" ] && exit 0
python3 -m pip --version >/dev/null 2>&1 || { echo "fetch-oracle: pip is needed to fetch jsonschema" >&2; exit 1; }
mkdir -p .cache
rm -rf "$dest.part"
python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$dest.part" \
  jsonschema==4.26.0 jsonschema-specifications==2025.9.1 referencing==0.37.0 rpds-py==0.30.0 attrs==25.4.0 typing_extensions==4.15.0
rm -rf "$dest"
mv "$dest.part" "$dest"
