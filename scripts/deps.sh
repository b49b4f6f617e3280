# deps.sh: sourced by ./try and ./check. `need PROGRAM:PACKAGE...` installs the Debian packages of the programs that are missing.
# A path instead of a program name (with a slash) is looked for as a file.

lists_are_fresh=

have() {
  case $1 in
    */*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

need() {
  missing=
  for pair in "$@"; do
    have "${pair%%:*}" || missing="$missing ${pair#*:}"
  done
  [ -z "$missing" ] && return 0
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "These Debian packages (or your system's equivalents) are needed:$missing" >&2
    exit 1
  fi
  sudo=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "Please run as root: apt-get install$missing" >&2; exit 1; }
    sudo=sudo
  fi
  echo "installing:$missing"
  [ "$lists_are_fresh" ] || $sudo apt-get update -qq >/dev/null
  lists_are_fresh=1
  # shellcheck disable=SC2086
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

build_deps() {
  need cc:gcc /usr/include/stdio.h:libc6-dev cmake:cmake ninja:ninja-build /usr/include/microhttpd.h:libmicrohttpd-dev /usr/include/histedit.h:libedit-dev /usr/include/sndfile.h:libsndfile1-dev /usr/include/liburing.h:liburing-dev
  need /usr/include/png.h:libpng-dev /usr/include/jpeglib.h:libjpeg62-turbo-dev /usr/include/webp/demux.h:libwebp-dev
  headers=/usr/include/$(uname -m)-linux-gnu # Debian puts these by machine
  need "$headers/mpg123.h:libmpg123-dev"
  need "$headers/libavformat/avformat.h:libavformat-dev" "$headers/libavcodec/avcodec.h:libavcodec-dev" \
    "$headers/libswscale/swscale.h:libswscale-dev" "$headers/libavutil/avutil.h:libavutil-dev" \
    "$headers/curl/curl.h:libcurl4-gnutls-dev"
}

vocab_deps() {
  need npm:npm tar:tar sha256sum:coreutils /etc/ssl/certs/ca-certificates.crt:ca-certificates
}
