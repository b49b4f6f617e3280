#!/usr/bin/env bash
# run.sh: runs the command line cases; README.md says how a case is written.
#
# Everything a case can see is made here (path, folder, model, rank file), so that cases do not depend on each other or on the machine.
set -u
export LC_ALL=C
update=
if [[ ${1-} == --update ]]; then
  update=1
  shift
fi
if (($# < 2)); then
  echo "usage: run.sh [--update] PROGRAM WORK_FOLDER [NAME...]" >&2
  exit 2
fi
program=$(cd "$(dirname "$1")" && pwd)/${1##*/} work=$2
shift 2
if [[ ! -x $program ]]; then
  echo "run.sh: $program is not a program" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work" || exit 1
work=$(cd "$work" && pwd)

# The program may need an emulator: INKJET_EMULATOR names it.
mkdir -p "$work/bin"
printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${INKJET_EMULATOR-}" "$program" > "$work/bin/inkjet.$$"
chmod +x "$work/bin/inkjet.$$"
mv "$work/bin/inkjet.$$" "$work/bin/inkjet"

export PATH="$work/bin:$PATH" MODEL="$work/model" RANKS="$work/ranks.tiktoken" FIXTURES="$here/../fixtures"

# 256 single bytes and a few merges: enough for every text, small enough to make on the spot.
make_ranks() {
  local i byte
  for ((i = 0; i < 256; i++)); do
    printf -v byte '\\x%02x' "$i"
    printf '%s %d\n' "$(printf "$byte" | base64)" "$i"
  done
  i=256
  local word
  for word in he ll hell hello ' w' or ' wor' ' world' '  '; do
    printf '%s %d\n' "$(printf %s "$word" | base64)" "$i"
    i=$((i + 1))
  done
}

prepare() {
  [[ -f $RANKS ]] || { make_ranks > "$RANKS.$$" && mv "$RANKS.$$" "$RANKS"; }
  [[ -f $MODEL/config.json ]] || inkjet bench --synthetic tiny --keep "$MODEL" --prompt 1 --gen 1 --repeat 1 > /dev/null || exit 1
}

# For cases: one command with all it says.
show() {
  local word
  printf '$'
  for word in "$@"; do
    if [[ $word && $word != *[!A-Za-z0-9_./:,=+-]* ]]; then printf ' %s' "$word"; else printf " '%s'" "$word"; fi
  done
  printf '\n'
  "$@" > .show.out 2> .show.err
  local rc=$?
  cat .show.out
  if [[ -s .show.out && -n $(tail -c 1 .show.out) ]]; then printf '\n\\ no line end\n'; fi
  sed 's/^/! /' .show.err
  printf '[exit %d]\n' "$rc"
}
export -f show

# check STREAM NAME: compares one stream with what is beside the case.
check() {
  local got=$work/run/$2/$1 exact=$here/cases/$2.$1.exact glob=$here/cases/$2.$1.glob want text
  if [[ -f $exact ]]; then
    cmp -s "$exact" "$got" && return 0
    [[ $update ]] && cp "$got" "$exact" && return 0
    diff -u "$exact" "$got"
  elif [[ -f $glob ]]; then
    want=$(cat "$glob") text=$(cat "$got")
    # shellcheck disable=SC2053 -- the right side is a pattern on purpose
    [[ $text == $want ]] && return 0
    [[ $update ]] && cp "$got" "$glob" && return 0
    echo "$1 does not match $glob; it was:"
    cat "$got"
  else
    [[ -s $got ]] || return 0
    [[ $update ]] && cp "$got" "$exact" && return 0
    echo "$1 was expected to be empty; it was:"
    cat "$got"
  fi
  return 1
}

run_case() {
  local name=$1 dir=$work/run/$1 want=0 rc bad=0
  rm -rf "$dir"
  mkdir -p "$dir/cwd"
  (cd "$dir/cwd" && exec bash "$here/cases/$name.sh" > ../stdout 2> ../stderr < /dev/null)
  rc=$?
  [[ -f $here/cases/$name.exit ]] && want=$(cat "$here/cases/$name.exit")
  if ((rc != want)); then
    if [[ $update ]]; then
      echo "$rc" > "$here/cases/$name.exit"
    else
      echo "exit code $rc, expected $want"
      bad=1
    fi
  fi
  check stdout "$name" || bad=1
  check stderr "$name" || bad=1
  return $bad
}

prepare
if (($# == 0)); then
  for file in "$here"/cases/*.sh; do
    file=${file##*/}
    set -- "$@" "${file%.sh}"
  done
fi
failed=0
for name in "$@"; do
  if [[ ! -f $here/cases/$name.sh ]]; then
    echo "there is no case '$name'" >&2
    exit 2
  fi
  if ! run_case "$name"; then
    echo "FAIL $name"
    failed=$((failed + 1))
  fi
done
echo "$(($# - failed)) passed, $failed failed"
((failed == 0))
