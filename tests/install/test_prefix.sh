#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package/install-into, as a user without root calls it. The libraries and their headers are in the user's own folder,
# where Debian's packages were unpacked, and the program uses those, not the system's. Long: a build.
export TMPDIR=/tmp # which the other user can enter, unlike the folder of ./run-tests
. "$(dirname "$0")/lib.sh"
for tool in dpkg apt-get setpriv git; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
mkdir "$work/packages" "$work/unpacked"
packages=(libjansson4 libjansson-dev libmicrohttpd12 libmicrohttpd-dev)
(cd "$work/packages" && apt-get -qq download "${packages[@]}") >"$work/log" 2>&1 || { echo "skipped: no packages of Debian"; exit 77; }
for package in "$work"/packages/*.deb; do dpkg -x "$package" "$work/unpacked"; done
needs=$work/needs
mv "$work/unpacked/usr" "$needs"
find "$needs" -name '*.pc' -exec sed -i "s|/usr|$needs|g" {} + # as conda does

git -C "$SOURCE" ls-files -z --cached --others --exclude-standard | (mkdir "$work/source" && tar -C "$SOURCE" --null -T - -c | tar -C "$work/source" -x)
as_user=()
if [ "$(id -u)" -eq 0 ]; then
    chmod 755 "$work"
    chown -R 65534:65534 "$work"
    as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fi
clean() { env -i PATH="$PATH" HOME="$work" TMPDIR="$work" LC_ALL=C.UTF-8 CMAKE_C_COMPILER_LAUNCHER="${LAUNCHER:-}" CCACHE_DIR="$work/cache" "$@"; }
# The user names his folder from where he is.
cd "$work" || exit 1
clean CMAKE_PREFIX_PATH=needs "${as_user[@]}" "$work/source/package/install-into" home -DBERTH_MPI=OFF -DBERTH_CUDA=OFF \
    -DBERTH_HIP=OFF >"$work/log" 2>&1 || die "package/install-into"
cd / || exit 1
grep -q "installed into $work/home" "$work/log" || die "nothing says where it is"
folder=$(sed -n 's/.*: add \(.*\)\/pkgconfig to PKG_CONFIG_PATH.*/\1/p' "$work/log")
[ -s "$folder/pkgconfig/berth.pc" ] && [ -s "$folder/libberth.so" ] || die "nothing says where the library is"
clean ldd "$work/home/bin/berth" >"$work/log"
for library in libjansson libmicrohttpd; do
    grep -q "$library.* => $needs/lib" "$work/log" || die "the program does not use $library of the user's folder"
done
clean "${as_user[@]}" "$work/home/bin/berth" answer --model "$SOURCE/tests/golden/classifier" --question 'who has the ball ?' \
    --context 'anna has the ball' --allow_new_head --quiet >"$work/log" 2>&1 || die "berth answer"
clean man -w -M "$work/home/share/man" berth >"$work/log" 2>&1 || ! command -v man >/dev/null || die "the manual"
echo "all good"
