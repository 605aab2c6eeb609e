# SPDX-License-Identifier: Apache-2.0
# Read by the scripts of this folder: prints the comment at the head of the script, and ends it, if its first
# argument is -h or --help.
case ${1:-} in
-h | --help)
    sed -n '3,${/^#/!q;s/^# \{0,1\}//p}' "$0"
    exit
    ;;
esac
