# SPDX-License-Identifier: Apache-2.0
# Images built by buildah with chroot isolation, which needs no daemon and no namespaces. Sourced; needs root. Everything
# is in $image_dir, and is removed by images_down.
#
#   images_up FOLDER       77 where something is missing. Makes the image localhost/base of Debian 12, unless the folder has
#                          it: of the folder that BERTH_BASE_ROOT names, or by debootstrap
#   image_build TAG MPI    builds deploy/container/Dockerfile
#   image_start TAG        a container of it
#   image_bytes TAG        its files
#   image_run UID [OPTIONS] TAG WORDS...
#   images_down
image_source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

declare -A image_roots image_containers
image_tool() {
    local command=$1
    shift
    buildah --root "$image_dir/root" --runroot "$image_dir/run" "$command" "$@"
}

images_up() {
    local root=${BERTH_BASE_ROOT:-}
    [ "$(id -u)" -eq 0 ] || { echo "images need root"; return 77; }
    command -v buildah >/dev/null || { echo "images need buildah (package buildah)"; return 77; }
    image_dir=$1
    mkdir -p "$image_dir"
    ! image_tool inspect --type image localhost/base >/dev/null 2>&1 || return 0
    if [ -z "$root" ]; then
        command -v debootstrap >/dev/null || { echo "images need debootstrap (package debootstrap)"; return 77; }
        root=$image_dir/debian
        debootstrap --variant=minbase bookworm "$root" http://deb.debian.org/debian >"$image_dir/debootstrap.log" 2>&1 ||
            { echo "no Debian here: $(tail -n 1 "$image_dir/debootstrap.log")"; return 77; }
        # As Debian's slim image.
        rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/*
        printf 'path-exclude /usr/share/%s/*\n' doc man locale >"$root/etc/dpkg/dpkg.cfg.d/docker"
    fi
    local container
    container=$(image_tool from scratch) &&
        tar -C "$root" -c . | tar -C "$(image_tool mount "$container")" -x &&
        image_tool config --cmd /bin/bash "$container" &&
        image_tool commit --rm "$container" localhost/base >/dev/null 2>&1
}

image_build() {
    image_tool build --isolation chroot --build-arg BASE=localhost/base --build-arg "MPI=$2" --layers -t "$1" \
        -f "$image_source/deploy/container/Dockerfile" "$image_source"
}

# The files of a new container are ${image_roots[TAG]}; its name is ${image_containers[TAG]}.
image_start() { # TAG
    image_containers[$1]=$(image_tool from "$1") && image_roots[$1]=$(image_tool mount "${image_containers[$1]}")
}

image_bytes() { # TAG
    du -sb "${image_roots[$1]}" | cut -f1
}

# As `docker run --user UID` with the options that buildah has, which are those before the tag.
image_run() { # UID [-v FROM:TO:OPTIONS | --env NAME=VALUE]... TAG WORDS...
    local user=$1 options=()
    shift
    while [[ $1 == -* ]]; do
        options+=("$1" "$2")
        shift 2
    done
    local container=${image_containers[$1]}
    shift
    image_tool run --isolation chroot --user "$user:$user" "${options[@]}" "$container" -- "$@"
}

images_down() {
    [ -d "${image_dir:-/nowhere}/root" ] || return 0
    image_tool rm -a >/dev/null 2>&1
    image_tool rmi -a -f >/dev/null 2>&1
    rm -rf "$image_dir"
}

# Runs words as pod K of hosts.sh would: process 1 of an image's files, read-only, without rights, as user $pod_user, with
# /data and /output of the test's folder, and the names of $work/hosts. Variables of the pod: NAME=VALUE words first.
pod() { # TAG K [NAME=VALUE...] WORDS...
    local root=${image_roots[$1]} k=$2
    shift 2
    hosts_exec "$k" unshare --pid --fork --kill-child --mount bash -euc '
        root=$1 work=$2 user=$3
        shift 3
        mount --bind "$root" "$root"
        for name in proc dev tmp work data output; do mkdir -p "$root/$name"; done
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --rbind /sys "$root/sys"
        for name in tmp work; do mount -t tmpfs -o mode=1777 tmpfs "$root/$name"; done
        mount --bind "$work/data" "$root/data"
        mount -o remount,bind,ro "$root/data"
        mount --bind "$work/output" "$root/output"
        echo "berth:x:$user:$user::/work:/bin/bash" >"$root/tmp/passwd"
        mount --bind "$root/tmp/passwd" "$root/etc/passwd"
        mount --bind "$work/hosts" "$root/etc/hosts"
        if [ -d "$work/ssh" ]; then
            mkdir "$root/work/.ssh"
            mount --bind "$work/ssh" "$root/work/.ssh"
        fi
        mount -o remount,bind,ro "$root"
        exec chroot "$root" setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all \
            env -i HOME=/work PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/share/berth/scripts \
            OMP_NUM_THREADS=1 "$@"' bash "$root" "$work" "$pod_user" "$@"
}
# Sends a signal to process 1 of pod K, as Kubernetes does.
pod_signal() { # K SIGNAL
    local pid
    for pid in $(ip netns pids "${lab}$([ "$1" = sw ] && echo sw || echo "h$1")"); do
        if grep -qE '^NSpid:.*[[:space:]]1$' "/proc/$pid/status"; then kill -"$2" "$pid"; fi
    done
}
