#!/usr/bin/env bash
# Shows on this machine what `forebay plan --verify` says: of a plan that is true, of one that lies about the disk, and of
# bursts before a slow tier. Takes about three minutes, 16 GB of disk, and root (it holds disks to a rate). Nothing else should
# use the disk meanwhile.
#
#   tests/bench/prove.sh [DIR]     results in DIR (default: plan-proof); FOREBAY=PATH names the binary
#
# Ends with 0 when the true ones hold and the lie does not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
forebay=${FOREBAY:-$here/../../target/release/forebay}
out=$(mkdir -p "${1:-plan-proof}" && cd "${1:-plan-proof}" && pwd)
slow=$out/held
"$forebay" bench device create limited forebay-plan-proof --size 4000000000 --rate 60000000 --at "$slow"
trap '"$forebay" bench device remove forebay-plan-proof' EXIT
failed=0
prove() { # NAME EXPECTED-CODE ARGUMENTS..
  local name=$1 expected=$2 code=0
  "$forebay" plan "$here/plans/$name.toml" --verify --out "$out/$name" "${@:3}" | tee "$out/$name.txt" | sed -n '/^Measured/,$p' || code=$?
  [[ $code == "$expected" ]] || { echo "$name: ended with $code, not $expected"; failed=1; }
}
prove true 0 --dir "$slow"
prove lie 1 --dir "$slow"
# Less than the whole, so that the second tier is held to its rate.
prove burst 0 --scale 0.99 --dir "$out"
exit $failed
