#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the packages twice, in different folders, and compares all files; lintian finds nothing; the packages are
# installed in a new Debian, used there and removed without a trace. Long: two builds and a Debian.
#
# BERTH_PACKAGES names a folder of a finished package/build instead of building; BERTH_BASE_ROOT a Debian 12 that is
# copied instead of made by debootstrap.
. "$(dirname "$0")/lib.sh"
end() {
    umount -l "$work/root/proc" 2>/dev/null
    rm -rf --one-file-system "$work"
}
trap end EXIT
for tool in dpkg-buildflags lintian debootstrap git; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "skipped: a chroot needs root"; exit 77; }

# --- the same bytes from different folders ---
packages=${BERTH_PACKAGES:-}
maintainer="Ada Example <ada@packages.invalid>"
if [ -z "$packages" ]; then
    packages=$work/one
    for copy in a "b/deeper and with blanks"; do
        mkdir -p "$work/$copy"
        git -C "$SOURCE" ls-files -z --cached --others --exclude-standard | tar -C "$SOURCE" --null -T - -c | tar -C "$work/$copy" -x
    done
    export SOURCE_DATE_EPOCH=1700000000
    "$work/a/package/build" "$packages" -DBERTH_CUDA=OFF -DBERTH_HIP=OFF "-DBERTH_MAINTAINER=$maintainer" >"$work/log" 2>&1 || die "building"
    "$work/b/deeper and with blanks/package/build" "$work/another folder" -DBERTH_CUDA=OFF -DBERTH_HIP=OFF "-DBERTH_MAINTAINER=$maintainer" >"$work/log" 2>&1 || die "building again"
    for package in "$packages"/*.deb; do
        [ "$(dpkg-deb -f "$package" Maintainer)" = "$maintainer" ] || die "$package names another maintainer"
    done
    diff "$packages/SHA256SUMS" "$work/another folder/SHA256SUMS" >"$work/log" || die "other bytes in another folder"
fi
(cd "$packages" && sha256sum --quiet -c SHA256SUMS) >"$work/log" 2>&1 || die "SHA256SUMS"
for kind in deb tar.gz whl spdx.json; do
    grep -q "\.$kind\$" "$packages/SHA256SUMS" || die "SHA256SUMS has no .$kind"
done
python3 -c 'import json, sys
sbom = json.load(open(sys.argv[1]))
assert {"jansson", "openssl", "zlib"} <= {package["name"] for package in sbom["packages"]}
assert all(package["versionInfo"] for package in sbom["packages"]) and len(sbom["files"]) > 3' "$packages"/*.spdx.json \
    2>"$work/log" || die "the bill of materials"

# --- lintian: CPack itself calls ldconfig besides the trigger ---
lintian --allow-root --fail-on error,warning --suppress-tags maintscript-calls-ldconfig "$packages"/*.deb >"$work/log" 2>&1 ||
    die "lintian"

# --- in a new Debian ---
root=$work/root
if [ -n "${BERTH_BASE_ROOT:-}" ]; then
    cp -a "$BERTH_BASE_ROOT" "$root"
else
    debootstrap --variant=minbase bookworm "$root" http://deb.debian.org/debian >"$work/log" 2>&1 ||
        { echo "skipped: no Debian here: $(tail -n 1 "$work/log")"; exit 77; }
fi
mount -t proc proc "$root/proc" || { echo "skipped: no /proc in a chroot"; exit 77; }
mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages"
cp "$SOURCE/examples/answer.c" "$root/packages"
cp -r "$SOURCE/tests/golden/classifier" "$root/packages/model"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@" >"$work/log" 2>&1; }
listing() { chroot "$root" find / -xdev -path /proc -prune -o \( -path '*berth*' -not -path '/packages/*' \) -print; }
inside apt-get -qq update || { echo "skipped: no packages of Debian"; exit 77; }
inside apt-get -qq install -y --no-install-recommends gcc libc6-dev pkg-config || die "a compiler in the chroot"
inside sh -c 'apt-get -qq install -y --no-install-recommends /packages/*.deb' || die "apt-get install"
inside berth --version || die "the installed program"
inside sh -c 'berth doctor' || die "berth doctor"
grep -qE '^comm_modules .*openmpi \(' "$work/log" || die "the module for Open MPI is not found"
inside sh -c 'berth init --config /packages/model/config.json --output /packages/asked && cp /packages/model/vocab.txt /packages/asked' ||
    die "berth init"
answer="berth answer --model /packages/asked --question 'who has the ball ?' --context 'anna has the ball' --quiet"
inside sh -c "$answer" || die "berth answer"
grep -qE '^(anna|has|the|ball)' "$work/log" || die "no answer"
# shellcheck disable=SC2016
inside sh -c 'gcc /packages/answer.c $(pkg-config --cflags --libs berth) -o /packages/answer' || die "compiling against libberth-dev"
inside /packages/answer /packages/asked 'who has the ball ?' 'anna has the ball' || die "a program of libberth1"
# shellcheck disable=SC2016
inside sh -c 'gcc /packages/answer.c $(pkg-config --cflags --libs --static berth | sed s/-lberth/-l:libberth.a/) -o /packages/answer' ||
    die "linking libberth.a"
inside /packages/answer /packages/asked 'who has the ball ?' 'anna has the ball' || die "a program with libberth.a"
# shellcheck disable=SC2016
inside sh -c 'apt-get -qq purge -y $(for file in /packages/*.deb; do dpkg-deb -f "$file" Package; done)' || die "apt-get purge"
[ -z "$(listing | grep -v '^/var/\(lib/apt\|cache\|log\)')" ] || { listing >"$work/log"; die "files are left"; }
echo "all good"
