#!/bin/sh
# Makes sure that programs which npm cannot bring are there; installs what is missing where that is possible.
#
# Guarantees that nothing is touched where everything is there, and that Debian starts no daemon that it
# installs. Never asks a question, and never installs for anybody but root.
#
#   ensure-tools.sh [--check] TOOL...
#
# --check only looks. Exit status: 0 all there; 2 misuse; 3 missing and not to be had here, with a line that
# says what would help.
set -u

# Daemons and network tools are not on a plain user's path.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
export PATH

package_of() {
  case $1 in
    redis-server | nginx | haproxy | faketime | chromium | openssl) echo "$1" ;;
    ip) echo iproute2 ;;
    unshare | flock) echo util-linux ;;
    *) return 1 ;;
  esac
}

fail() {
  echo "ensure-tools: $1" >&2
  exit "$2"
}

# The tools among "$@" that cannot be found.
missing_of() {
  for tool in "$@"; do
    command -v "$tool" >/dev/null 2>&1 || printf ' %s' "$tool"
  done
}

only_check=no
if [ "${1:-}" = --check ]; then
  only_check=yes
  shift
fi
[ $# -gt 0 ] || fail 'usage: ensure-tools.sh [--check] TOOL...' 2

for tool in "$@"; do
  package_of "$tool" >/dev/null || fail "no package is known for '$tool'" 2
done
missing=$(missing_of "$@")
[ -n "$missing" ] || exit 0

packages=''
for tool in $missing; do
  packages="$packages $(package_of "$tool")"
done
install_line="apt-get install -y --no-install-recommends$packages"

[ $only_check = no ] || fail "missing:$missing. On Debian: $install_line" 3
command -v apt-get >/dev/null 2>&1 || fail "missing:$missing. There is no apt-get here: install by hand." 3
[ "$(id -u)" = 0 ] || fail "missing:$missing. Not root; run: sudo $install_line" 3

# Maintainer scripts ask this file whether they may start what they have installed: 101 means no.
policy=/usr/sbin/policy-rc.d
log=$(mktemp "${TMPDIR:-/tmp}/ensure-tools.XXXXXX") || exit 3
made_policy=no
clean_up() {
  rm -f "$log"
  [ $made_policy = no ] || rm -f "$policy"
}
trap clean_up EXIT
trap 'exit 3' HUP INT TERM
if [ ! -e "$policy" ]; then
  made_policy=yes
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
apt() {
  apt-get -qq -o Acquire::http::Timeout=20 -o DPkg::Lock::Timeout=120 "$@" </dev/null >"$log" 2>&1
}
install() {
  # shellcheck disable=SC2086 # one word for each package
  apt install -y --no-install-recommends $packages
}
# Package lists may be absent or out of date: then they are fetched, once.
install || { apt update && install; } ||
  fail "missing:$missing. apt-get said: $(tail -n 1 "$log")" 3

# shellcheck disable=SC2086 # one word for each tool
still_missing=$(missing_of $missing)
[ -z "$still_missing" ] || fail "installed, and yet not found:$still_missing" 3
