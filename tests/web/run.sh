#!/bin/sh
# The page, in full: types, a build that must give exactly what is committed in web/dist, the unit tests, and the page in headless Chromium
# against a mock server. With a program and a checkpoint also against the real server:
#
#   tests/web/run.sh [PROGRAM [MODEL]]
#
# Needs node >= 20.19, npm (fetches what web/package-lock.json pins), and Chromium (Debian: chromium; else CHROMIUM=PATH).
set -eu
cd "$(dirname "$0")/../.."
program=${1:-}
model=${2:-}

if [ ! -d web/node_modules/playwright-core ] || [ web/package-lock.json -nt web/node_modules/.package-lock.json ]; then
  npm ci --prefix web --ignore-scripts --no-audit --no-fund
fi

echo "== the build is what is committed"
committed=$(cat web/dist/*)
npm run --silent --prefix web build
if [ "$committed" != "$(cat web/dist/*)" ]; then
  echo "web/dist was not what its sources build; it is now: commit it" >&2
  exit 1
fi

echo "== the parts, under node"
node --test --test-reporter=dot tests/web/unit/*.test.mjs

echo "== the page in Chromium, against the mock server"
node tests/web/browser.mjs

if [ -n "$program" ]; then
  echo "== the page in Chromium, against $program"
  node tests/web/real.mjs "$program" "$model"
fi
