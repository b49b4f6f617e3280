#!/bin/sh
# Fetches two template engines into .cache/templates: Jinja2 3.1.6 with MarkupSafe 3.0.2 (PyPI) and @huggingface/jinja 0.5.11 (npm).
# Nothing is done when they are there.
set -eu
cd "$(dirname "$0")/../.."
dest=.cache/templates
mkdir -p "$dest"
if [ ! -f "$dest/python/jinja2/__init__.py" ]; then
  python3 -m pip --version >/dev/null 2>&1 || { echo "fetch-engines: pip is needed to fetch Jinja2" >&2; exit 1; }
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$dest/python" jinja2==3.1.6 markupsafe==3.0.2
fi
if [ ! -f "$dest/package/dist/index.js" ]; then
  command -v npm >/dev/null 2>&1 || { echo "fetch-engines: npm is needed to fetch @huggingface/jinja" >&2; exit 1; }
  archive=$(npm pack --silent --pack-destination "$dest" @huggingface/jinja@0.5.11 | tail -n 1)
  tar -xzf "$dest/$archive" -C "$dest"
  rm "$dest/$archive"
fi
