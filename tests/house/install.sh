#!/bin/sh
# What is installed is complete and works: the files are there, and a program of its own builds and runs with pkg-config.
# Usage: install.sh CMAKE CC PKG_CONFIG BUILD_FOLDER WORK_FOLDER CHECKPOINT
set -eu
cmake=$1 cc=$2 pkg_config=$3 build=$4 work=$5 checkpoint=$6
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
"$cmake" --install "$build" --prefix "$work/first" >"$work/log"
mv "$work/first" "$work/root" # elsewhere than it was installed to: nothing in it may know its place

bad=0
for pattern in bin/inkjet 'lib*/libinkjet.a' include/inkjet.h include/inkjet_status.h include/inkjet_chat.h include/inkjet_media.h \
    share/man/man1/inkjet.1 share/bash-completion/completions/inkjet share/zsh/site-functions/_inkjet 'lib*/pkgconfig/inkjet.pc' share/doc/inkjet/LICENSE; do
  # The library folder may have one more part, such as x86_64-linux-gnu.
  [ -n "$(find "$work/root" -path "$work/root/$pattern" -type f -size +0)" ] || { echo "not installed: $pattern"; bad=1; }
done
[ "$(find "$work/root/include" -type f | wc -l)" = 4 ] || { echo "more is in include/ than the public headers"; bad=1; }
[ $bad = 0 ] || exit 1

pc=$(find "$work/root" -name inkjet.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
version=$("$pkg_config" --modversion inkjet)
# shellcheck disable=SC2046 -- flags are words
"$cc" -std=c99 -Wall -Wextra -Werror -pedantic -o "$work/external" "$here/external.c" $("$pkg_config" --cflags --libs inkjet)
said=$("$work/external" "$checkpoint")
case $said in
  *"inkjet $version") ;;
  *) printf 'the program should end with "inkjet %s"; it said:\n%s\n' "$version" "$said"; exit 1 ;;
esac
[ "$(printf '%s\n' "$said" | wc -l)" = 6 ] || { printf 'five ids and the version were expected; it said:\n%s\n' "$said"; exit 1; }
"$work/root/bin/inkjet" --version | grep -F "$version" >/dev/null || { echo "bin/inkjet does not say version $version"; exit 1; }
echo "installed, moved, built against and run: inkjet $version"
