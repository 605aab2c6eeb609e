#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package/berth.spec builds with rpmbuild, names every file that is installed, and its packages have what Debian's have.
# Long: a build. It runs on Debian, whose libraries are not RPM packages: what the spec requires is not asked for.
. "$(dirname "$0")/lib.sh"
for tool in rpmbuild rpm git mpicc; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
version=$(sed -n 's/^#define BERTH_VERSION "\(.*\)"/\1/p' "$SOURCE/include/berth.h")
git -C "$SOURCE" ls-files -z --cached --others --exclude-standard |
    tar -C "$SOURCE" --null -T - --transform "s|^|berth-$version/|" -czf "$work/berth-$version.tar.gz"
rpmbuild -tb --nodeps --define "_topdir $work/rpm" --define "_lib lib64" --define "_libdir /usr/lib64" --define "debug_package %{nil}" \
    "$work/berth-$version.tar.gz" >"$work/log" 2>&1 || die "rpmbuild"
! grep -qE '\(but unpackaged\)|File listed twice' "$work/log" || die "files of no package, or of two"
has() { # PACKAGE FILE
    rpm -qpl "$work"/rpm/RPMS/*/"$1-$version"-*.rpm >"$work/log" 2>&1
    grep -qx -- "$2" "$work/log" || die "$1 lacks $2"
}
has berth /usr/bin/berth
has berth /usr/share/bash-completion/completions/berth
has berth-libs "/usr/lib64/libberth.so.$version"
has berth-devel /usr/include/berth.h
has berth-openmpi /usr/lib64/berth/berth-comm-openmpi.so
[ "$(find "$work/rpm/RPMS" -name '*.rpm' | wc -l)" -eq 4 ] || die "not four packages"
rpm -qp --requires "$work"/rpm/RPMS/*/berth-devel-*.rpm >"$work/log" 2>&1
grep -q "^berth-libs.* = $version-1" "$work/log" || die "berth-devel does not need its library"
echo "all good"
