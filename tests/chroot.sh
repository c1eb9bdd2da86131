#!/usr/bin/env bash
# Proves on a bare Debian 12 that ./dev works from nothing: makes a minimal chroot, copies the tree
# into it and runs the commands given there (default: ./dev run, then ./dev test).
# Needs root and debootstrap.
#
#   tests/chroot.sh FOLDER [COMMAND...]     each COMMAND is one shell line, run in the copy
#
# FOLDER is made where it does not exist, else reused as it is: remove it for a fresh start.
# MIRROR: the Debian mirror (default: debootstrap's own choice). http_proxy and https_proxy are honoured.
# FOREGATHER_DATA: a folder of shared test data to make visible there, read-only.
set -euo pipefail

(($# > 0)) || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
chroot=$(realpath -m "$1")
shift
commands=("$@")
((${#commands[@]} > 0)) || commands=('./dev run' './dev test')
root=$(cd "$(dirname "$0")/.." && pwd)

mounts=()
cleanup() {
  local i
  for ((i = ${#mounts[@]} - 1; i >= 0; --i)); do umount "${mounts[i]}" || umount --lazy "${mounts[i]}"; done
}
trap cleanup EXIT
mount_in() {
  local target=$chroot/$1
  shift
  mkdir -p "$target"
  mount "$@" "$target"
  mounts+=("$target")
}

if [[ ! -e $chroot/etc/debian_version ]]; then
  debootstrap --variant=minbase bookworm "$chroot" ${MIRROR:+"$MIRROR"}
fi
[[ ! -e /etc/resolv.conf ]] || cp --dereference /etc/resolv.conf "$chroot/etc/resolv.conf"
[[ -z ${http_proxy:-} ]] || echo "Acquire::http::Proxy \"$http_proxy\";" >"$chroot/etc/apt/apt.conf.d/01proxy"

mount_in proc -t proc proc
mount_in dev --bind /dev
data=()
if [[ -n ${FOREGATHER_DATA:-} ]]; then
  mount_in data --bind -o ro "$FOREGATHER_DATA"
  data=(FOREGATHER_DATA=/data)
fi

tree=/home/foregather
rm -rf "${chroot:?}$tree"
mkdir -p "$chroot$tree"
tar -C "$root" --exclude=./build --exclude=./.git -cf - . | tar -C "$chroot$tree" -xf -

for command in "${commands[@]}"; do
  printf '\n==== in the chroot: %s\n' "$command"
  chroot "$chroot" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    ${JOBS:+JOBS="$JOBS"} "${data[@]}" /bin/bash -c "cd $tree && $command"
done
