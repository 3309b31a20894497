#!/bin/sh
# Checks what the linker made of the library: its soname, what it exports (what the headers declare, and nothing
# that missing.txt lists), what it needs at run time, and that programs linked with TensorFlow's libraries load it
# in their place.
#
#     tools/symbols/check.sh path/to/libtfcore.so
set -eu

library=$1
for tool in readelf cc; do
  command -v $tool >/dev/null || { echo "$tool is missing. Install gcc and binutils"; exit 1; }
done

fail() {
  echo "$library: $1" >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

readelf -dW "$library" | grep -q 'SONAME.*\[libtfcore\.so\.2\]' || fail "its soname is not libtfcore.so.2"

# Defined dynamic symbols: only the C API's and ours.
exported=$(readelf --dyn-syms -W "$library" | awk '$5 ~ /GLOBAL|WEAK/ && $7 ~ /^[0-9]+$/ { sub(/@.*/, "", $8); print $8 }' |
  LC_ALL=C sort)
[ -n "$exported" ] || fail "exports nothing"
strange=$(echo "$exported" | grep -Ev '^(TF|TFE|TSL|tfcore)_' || true)
[ -z "$strange" ] || fail "exports $(echo "$strange" | head -5 | tr '\n' ' ')"

# missing.txt lists the functions of TensorFlow's library that are not here yet. It only shrinks.
tools=$(dirname "$0")
LC_ALL=C sort -cu "$tools/missing.txt" || fail "missing.txt is not sorted"
echo "$exported" > "$work/exported"
found=$(LC_ALL=C comm -12 "$work/exported" "$tools/missing.txt")
[ -z "$found" ] || fail "has what missing.txt lists, take it off: $(echo $found)"

# What the headers declare and what is exported are the same, but for what plug-ins define (TF_Init...) and for what a
# header defines itself. A declaration is the one place where the compiler's view of the headers has a name before a
# parenthesis.
echo '#include "tfcore.h"' | cc -E -P -I"$tools/../../include" - | grep -oE '\b(TF|TFE|TSL|tfcore)_\w+ *\(' |
  tr -d ' (' | grep -Ev '^TF_(Init(Graph|Kernel|Plugin|Profiler)|SetFilesystemVersionMetadata)$' | LC_ALL=C sort -u > "$work/declared"
undeclared=$(LC_ALL=C comm -13 "$work/declared" "$work/exported")
[ -z "$undeclared" ] || fail "exports what no header declares: $(echo $undeclared)"
absent=$(LC_ALL=C comm -23 "$work/declared" "$work/exported")
[ -z "$absent" ] || fail "lacks what the headers declare: $(echo $absent)"

# A bare machine has these; anything else would have to be installed.
needed=$(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
strange=$(echo "$needed" | grep -Ev '^(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux.*)\.so' || true)
[ -z "$strange" ] || fail "needs $strange"

# A program linked with a stand-in for each of TensorFlow's libraries, the released one and the wheel's, then run with
# ours under its name.
mkdir "$work/theirs" "$work/ours"
cat > "$work/theirs.c" <<'C'
const char *TF_Version(void) { return "theirs"; }
C
cat > "$work/program.c" <<'C'
#include <stdio.h>
const char *TF_Version(void);
int main(void) { return puts(TF_Version()) < 0; }
C
for pair in VERS_1.0:libtensorflow.so.2 tensorflow:libtensorflow_cc.so.2; do
  version=${pair%:*} name=${pair#*:}
  cp "$library" "$work/ours/$name"
  echo "$version { global: *; };" > "$work/map"
  cc -shared -fPIC "$work/theirs.c" -o "$work/theirs/$name" -Wl,-soname,"$name" -Wl,--version-script="$work/map"
  cc "$work/program.c" "$work/theirs/$name" -o "$work/program"
  LD_BIND_NOW=1 LD_LIBRARY_PATH="$work/ours" "$work/program" > "$work/out" 2> "$work/err" ||
    fail "does not load for $version: $(cat "$work/err")"
  [ "$(cat "$work/out")" != theirs ] || fail "the program for $version ran with its own library"
  # The warning does no harm, and is the best GNU ld can do: see build.rs.
  [ ! -s "$work/err" ] || echo "note: $(cat "$work/err")"
done

echo "symbols: $(echo "$exported" | wc -l) exported, needs $(echo $needed)"
