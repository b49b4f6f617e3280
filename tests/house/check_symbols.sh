#!/bin/sh
# Only ij_ symbols leave the library. check_symbols.sh NM LIBRARY.so
set -eu
all=$("$1" -D --defined-only "$2" | awk '{print $NF}')
[ -n "$all" ] || { echo "$2 exports nothing"; exit 1; }
foreign=$(printf '%s\n' "$all" | grep -v '^ij_[a-z]' || true)
inner=$(printf '%s\n' "$all" | grep '^ij__' || true)
if [ -n "$foreign$inner" ]; then
  printf 'these symbols leave the library:\n%s\n%s\n' "$foreign" "$inner"
  exit 1
fi
echo "$(printf '%s\n' "$all" | wc -l) symbols leave the library, all of them ij_"
