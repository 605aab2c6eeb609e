#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Python wheel of an installed Berth, installs it by pip into a new virtual environment and uses it there
# (wheel.py). The same files give the same wheel.
set -u
python=${BERTH_PYTHON:-python3}
[ -z "$SANITIZE" ] || { echo "skipped: a sanitizer's library would have to be loaded before Python"; exit 77; }
"$python" -c 'import numpy, ensurepip' 2>/dev/null || { echo "skipped: $python has no numpy or no venv (python3-venv)"; exit 77; }
. "$(dirname "$0")/lib.sh"
"$CMAKE" --install "$BUILD" --prefix "$work/tree" >"$work/log" 2>&1 || die "installing"
modules=
if [ -e "$BUILD/berth-device-emulated.so" ]; then # which is not installed, but opens as HIP's module
    folder=$(dirname "$(find "$work/tree" -name libberth.a)")/berth
    mkdir -p "$folder"
    cp "$BUILD/berth-device-emulated.so" "$folder/berth-device-hip.so"
    modules=--modules
fi
for turn in first second; do
    "$python" -B "$SOURCE/package/wheel/build_wheel.py" "$work/tree" "$work/$turn" >"$work/path" 2>"$work/log" ||
        die "making the wheel"
    sleep 1
done
cmp -s "$work/first/"*.whl "$work/second/"*.whl || die "the same files give another wheel"
"$python" -m venv --system-site-packages "$work/venv" >"$work/log" 2>&1 || die "no virtual environment" # for NumPy
"$work/venv/bin/pip" install --no-index --no-deps --disable-pip-version-check "$work/first/"*.whl >"$work/log" 2>&1 ||
    die "pip install"
rm -rf "$work/tree" # nothing of it is needed
mkdir "$work/scratch"
PATH=$work/venv/bin:$PATH "$work/venv/bin/python" -B "$HERE/wheel.py" "$SOURCE" "$work/scratch" $modules >"$work/log" 2>&1 ||
    die "using the wheel"
"$work/venv/bin/pip" uninstall -y berth-bert >"$work/log" 2>&1 || die "pip uninstall"
[ ! -e "$work/venv/bin/berth" ] && [ -z "$(find "$work/venv" -name 'libberth*')" ] || die "pip left files"
echo "all good"
