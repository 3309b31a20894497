#!/bin/sh
# Checks what the linker made of the library: its soname, what it exports and what it needs at run time.
#
#     tools/symbols/check.sh path/to/libtfcore.so
set -eu

library=$1
command -v readelf >/dev/null || { echo "readelf is missing. Install binutils"; exit 1; }

fail() {
  echo "$library: $1" >&2
  exit 1
}

readelf -dW "$library" | grep -q 'SONAME.*\[libtfcore\.so\.2\]' || fail "its soname is not libtfcore.so.2"

# Defined dynamic symbols: only the C API's, ours, and the names of symbol versions (absolute symbols).
exported=$(readelf --dyn-syms -W "$library" | awk '$5 ~ /GLOBAL|WEAK/ && $7 ~ /^[0-9]+$/ { sub(/@.*/, "", $8); print $8 }')
strange=$(echo "$exported" | grep -Ev '^(TF|TFE|TSL|tfcore)_' || true)
[ -z "$strange" ] || fail "exports $(echo "$strange" | head -5 | tr '\n' ' ')"
[ -n "$exported" ] || fail "exports nothing"

# A bare machine has these; anything else would have to be installed.
needed=$(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
strange=$(echo "$needed" | grep -Ev '^(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux.*)\.so' || true)
[ -z "$strange" ] || fail "needs $strange"

echo "symbols: $(echo "$exported" | wc -l) exported, needs $(echo $needed)"
