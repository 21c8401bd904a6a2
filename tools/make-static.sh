#!/bin/sh
# Makes the static library users link: one object out of the internal archive, with all but ferry_* made local.
# make-static.sh OUTPUT INTERNAL_ARCHIVE COMPILER...
set -eu
output=$1 archive=$2
shift 2
object=${output%.a}.o
"$@" -r -nostdlib -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -Wl,--force-group-allocation -o "$object"
objcopy --wildcard --keep-global-symbol='ferry_*' "$object"
rm -f "$output"
ar rcs "$output" "$object"
rm -f "$object"
