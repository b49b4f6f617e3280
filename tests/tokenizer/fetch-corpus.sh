#!/bin/sh
# Gathers 50 MB and more of public text under .cache/corpus: code, English, and manual pages and guides in over ten languages, from Debian
# packages (downloaded and unpacked, not installed). Prints the names of the files. Nothing is fetched when they are there.
set -eu
cd "$(dirname "$0")/../.."
dest=.cache/corpus
packages="libpython3.11-stdlib linux-headers-6.1.0-*-common libgtk-3-dev manpages manpages-dev fortunes
  manpages-de manpages-fr manpages-es manpages-ru manpages-ja manpages-zh manpages-pl manpages-tr
  debian-reference-ja installation-guide-amd64 hunspell-ar hunspell-th hunspell-hi hunspell-he hunspell-ko"

unpack() { # NAME FIND-ARGUMENTS...: the matching files, gzip undone, as one text
  name=$1
  shift
  find "$part/$name" -type f "$@" | LC_ALL=C sort | while IFS= read -r file; do
    case $file in
      *.gz) gzip -dc "$file" ;;
      *) cat "$file" ;;
    esac
  done | head -c 8000000 >"$dest/$name.part"
  mv "$dest/$name.part" "$dest/$name.txt"
}

if [ ! -f "$dest/complete" ]; then
  mkdir -p "$dest"
  part=$(mktemp -d "$dest/fetch.XXXXXX")
  trap 'rm -rf "$part"' EXIT INT TERM
  for wanted in $packages; do
    package=$(apt-cache --names-only search "^$(echo "$wanted" | sed 's/\*/[0-9]*/')\$" | cut -d' ' -f1 | LC_ALL=C sort -V | tail -n 1)
    [ -n "$package" ] || { echo "fetch-corpus: no package like $wanted" >&2; continue; }
    (cd "$part" && apt-get download -qq -o APT::Sandbox::User=root "$package" >&2)
    dpkg-deb -x "$part/$package"_*.deb "$part/$package"
    rm "$part/$package"_*.deb
    case $package in
      installation-guide*)
        for language in ar bg el he hi it ko pt ro sv vi zh_TW; do
          [ -d "$part/$package/usr/share/doc/installation-guide-amd64/$language" ] || continue
          mv "$part/$package/usr/share/doc/installation-guide-amd64/$language" "$part/guide-$language"
          unpack "guide-$language" -name '*.html*'
        done ;;
      libpython*) unpack "$package" -name '*.py' ;;
      linux-headers*|libgtk*) unpack "$package" -name '*.h' ;;
      hunspell*) unpack "$package" -name '*.dic' ;;
      manpages*) unpack "$package" -path '*/man/*' -name '*.gz' ;;
      *) unpack "$package" -path "*/share/*" ! -name "*.dat" ! -name "*.gz" ;;
    esac
  done
  : >"$dest/complete"
fi
ls "$dest"/*.txt
