#!/bin/sh
# Fuzzes one target for some seconds, starting from its saved inputs, then keeps a few of the inputs that together reach all code found:
# at most about 100 files, spread over their sizes, and 100 kB.
# Usage, from anywhere: tests/fuzz/run.sh NAME SECONDS [BUILD_FOLDER]     e.g. tests/fuzz/run.sh json 600
# A finding stops the run; its input is left in BUILD_FOLDER/fuzz/NAME/ and the exit status is not 0.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 NAME SECONDS [BUILD_FOLDER]" >&2; exit 2; }
name=$1 seconds=$2
here=$(cd "$(dirname "$0")" && pwd)
build=${3:-$here/../../build/asan}
program=$build/tests/fuzz/fuzz_$name
corpus=$here/corpus/$name
max_file=4096 max_total=100000 max_count=100
[ -x "$program" ] || { echo "$program is missing: cmake --preset asan && cmake --build --preset asan" >&2; exit 2; }
program=$(cd "$(dirname "$program")" && pwd)/fuzz_$name
mkdir -p "$corpus" "$build/fuzz/$name/found" "$build/fuzz/$name/small"
cd "$build/fuzz/$name"
dict=
[ ! -f "$here/$name.dict" ] || dict=-dict=$here/$name.dict
"$program" ${dict:+"$dict"} -max_total_time="$seconds" -max_len=$max_file -timeout=10 -rss_limit_mb=3000 -print_final_stats=1 -artifact_prefix=./ \
  found "$corpus"
rm -rf small && mkdir small
"$program" -set_cover_merge=1 -use_counters=0 -max_len=$max_file small "$corpus" found >merge.log 2>&1
# Inputs with names given by people stay.
total=$(find "$corpus" -type f -name '*[!0-9a-f]*' -exec cat {} + | wc -c)
find "$corpus" -type f ! -name '*[!0-9a-f]*' -delete
step=$(($(ls small | wc -l) / max_count + 1))
for file in $(ls -Sr small | awk "NR % $step == 0"); do
  size=$(wc -c <"small/$file")
  total=$((total + size))
  [ "$total" -le "$max_total" ] || break
  cp "small/$file" "$corpus/$file"
done
echo "$name: $(ls "$corpus" | wc -l) inputs, $(cat "$corpus"/* | wc -c) bytes in $corpus"
