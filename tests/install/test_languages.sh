#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Uses an installed Berth from other languages and build systems: a C++ program on several threads, built by a CMake
# project with find_package(berth), shared and static, and with pkg-config. All print the same bits. Another version is refused. A CMake project that adds Berth as a folder is
# only configured.
set -u
command -v "$CXX" >/dev/null || { echo "skipped: no C++ compiler"; exit 77; }
. "$(dirname "$0")/lib.sh"
model=$SOURCE/tests/golden/classifier
root=$work/tree
"$CMAKE" --install "$BUILD" --prefix "$root" >"$work/log" 2>&1 || die "installing"
PKG_CONFIG_PATH=$(dirname "$(find "$root" -name berth.pc)")
export PKG_CONFIG_PATH
library=$(pkg-config --variable=libdir berth)/libberth.so

configure() { # FOLDER OPTIONS...
    local folder=$1
    shift
    "$CMAKE" -S "$folder" -B "$folder/build" "-DCMAKE_PREFIX_PATH=$work/moved" "-DCMAKE_CXX_COMPILER=$CXX" \
        "-DCMAKE_C_COMPILER=$CC" "-DCMAKE_CXX_FLAGS=${SANITIZE:+-fsanitize=$SANITIZE}" -DCMAKE_BUILD_TYPE=Debug "$@" \
        >"$work/log" 2>&1
}
run() { # NAME PROGRAM...
    local name=$1
    shift
    "$@" >"$work/$name.out" 2>"$work/log" || die "$name: exit code $?"
    ! grep FAILED "$work/$name.out" || die "$name"
    [ "$(wc -l <"$work/$name.out")" -eq 570 ] || die "$name: expected 30 times 3 scores and 16 numbers"
}

# shellcheck disable=SC2046
"$CXX" -std=c++17 -Wall -Wextra -Werror ${SANITIZE:+-fsanitize=$SANITIZE} "$HERE/threads.cpp" \
    $(pkg-config --cflags --libs berth) -pthread -o "$work/threads" 2>"$work/log" || die "compiling with pkg-config"
run pkg-config env LD_LIBRARY_PATH="${library%/*}" "$work/threads" "$model"

# --- the CMake package of a tree that was moved ---
mv "$root" "$work/moved"
mkdir "$work/outside" "$work/newer" "$work/around"
cp "$HERE/threads.cpp" "$work"
cp "$HERE/outside/CMakeLists.txt" "$work/outside"
configure "$work/outside" || die "find_package(berth)"
"$CMAKE" --build "$work/outside/build" >"$work/log" 2>&1 || die "building the outside project"
for kind in berth static; do
    run "cmake-$kind" "$work/outside/build/threads_$kind" "$model"
    cmp -s "$work/pkg-config.out" "$work/cmake-$kind.out" || die "CMake, $kind: other bits"
done
ldd "$work/outside/build/threads_berth" | grep -qF "$work/moved" || die "berth::berth is not the shared library"
! ldd "$work/outside/build/threads_static" | grep -q libberth || die "berth::static needs the shared library"
sed 's/find_package(berth 1.0/find_package(berth 2.0/' "$HERE/outside/CMakeLists.txt" >"$work/newer/CMakeLists.txt"
configure "$work/newer" && die "another major version was accepted"
grep -q 'considered but not accepted' "$work/log" || die "another version: another error"

# --- a CMake project that adds Berth as a folder ---
cp "$HERE/around/CMakeLists.txt" "$work/around"
configure "$work/around" "-DBERTH_SOURCE=$SOURCE" -DBERTH_CUDA=OFF -DBERTH_HIP=OFF -DBERTH_MPI=OFF || die "add_subdirectory"
grep -rqE --include=build.ninja --include=link.txt 'libberth\.a .*-ljansson' "$work/around/build" ||
    die "the static library is linked without what it needs"
[ ! -e "$work/around/build/berth/tests" ] && [ ! -e "$work/around/build/CPackConfig.cmake" ] ||
    die "a project that adds Berth has Berth's tests or packages"
echo "all good"
