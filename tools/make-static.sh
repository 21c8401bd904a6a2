#!/bin/sh
# Makes the static library that users link: one object out of the internal archive. In the object, every symbol except
# ferry_* is local, and ferry_* is hidden. A program or plug-in that links the library neither exports ferry_* nor binds
# to another ferry in the process.
# make-static.sh OUTPUT INTERNAL_ARCHIVE NM OBJCOPY AR COMPILER...
set -eu
output=$1 archive=$2 nm=$3 objcopy=$4 ar=$5
shift 5
object=${output%.a}.o hidden=${output%.a}-hidden.o symbols=${output%.a}-symbols.txt
# A linker gives a symbol the strictest visibility that any object requests, and an object may request one without
# defining the symbol. The C++ wrapper around the assembly gives this object the same marks (stack, branch protection)
# as the others.
"$nm" -g --defined-only "$archive" >"$symbols"
sed -n 's/.* T \(ferry_[a-z0-9_]*\)$/__asm__(".globl \1\\n.hidden \1");/p' "$symbols" >"$symbols.cpp"
[ -s "$symbols.cpp" ] || { echo "no ferry_* function in $archive" >&2 && exit 1; }
"$@" -w -c "$symbols.cpp" -o "$hidden"
"$@" -r -nostdlib "$hidden" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -Wl,--force-group-allocation \
    -o "$object"
"$objcopy" --wildcard --keep-global-symbol='ferry_*' "$object"
rm -f "$output"
"$ar" rcs "$output" "$object"
rm -f "$object" "$hidden" "$symbols" "$symbols.cpp"
