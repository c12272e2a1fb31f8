#!/usr/bin/env bash
# Looks for settings of this machine that help Forebay, and shows whether they do: `forebay tune plan` proposes from what was
# counted while a broker was under load, `forebay tune experiment` compares with the same load. Takes about eight minutes for each
# item of the plan, of more than two items for all together; 2 GB of disk, and root. Nothing else should run meanwhile.
#
#   tests/tune/prove.sh [DIR]     plan, design, result and report in DIR (default: docs/benchmarks/tune); FOREBAY=PATH names the binary
#
# All changes are taken back, also if it is ended in the middle. Ends with 0 whatever the verdict: "no benefit" is a result, too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
forebay=$(realpath "${FOREBAY:-$here/../../target/release/forebay}")
out=$(mkdir -p "${1:-$here/../../docs/benchmarks/tune}" && cd "${1:-$here/../../docs/benchmarks/tune}" && pwd)
[[ ! -e $out/result.json.gz ]] || { echo "$out has a result already"; exit 2; }
work=$(mktemp -d)
# A change that is in effect when this is ended has its journal here.
end() {
  [[ ! -d $work/state ]] || "$forebay" tune --state "$work/state" undo >&2 || true
  rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM
cd "$work"
echo "the load, once: what it makes the host count is the plan's evidence"
python3 "$here/forebay_load.py" "$forebay"
"$forebay" tune plan -o "$out/plan.toml"
grep -q '^\[\[item\]\]' "$out/plan.toml" || {
  echo "nothing is dropped that a setting would help: disputed settings are tried"
  "$forebay" tune plan --profile latency -o "$out/plan.toml"
}
grep -q '^\[\[item\]\]' "$out/plan.toml" || { echo "there is nothing to try on this machine"; exit 0; }
if grep -q '^class = "[LPBD]"' "$out/plan.toml"; then
  echo "$out/plan.toml has items that cut the link or need a restart: take them out by hand, as --class-max would refuse the plan" >&2
  exit 2
fi
mapfile -t items < <(sed -n 's/^id = "\(.*\)"$/\1/p' "$out/plan.toml")
# Settings that files of this machine set are tried, too: all is taken back.
takes=()
for item in "${items[@]}"; do takes+=(--take-over "$item"); done
# Each item by itself, beside those that were adopted before it; of many, all together.
mode=each
((${#items[@]} <= 2)) || mode=bundle
echo "${#items[@]} items, as $mode: ${items[*]}"
cat > "$out/design.toml" <<END
version = 1
plan = "plan.toml"
mode = "$mode"
seed = 1
pairs = 12
pairs_of_same = 8
block_ms = 9000
washout_ms = 500
load = ["python3", "$here/forebay_load.py", "$forebay"]

[[primary]]
name = "connect_p99_ms"        # clients that come back at once
threshold = 0.05

[[primary]]
name = "steady_produce_p99_ms" # at 40 MB/s of 1 KB, written and read
threshold = 0.05

[[primary]]
name = "steps_capacity_mb"     # the last step with a p99 of at most 50 ms
better = "more"
threshold = 0.05

[[primary]]
name = "drops"

[[guard]]
name = "steady_consume_mb"
better = "more"
END
code=0
"$forebay" tune --state "$work/state" experiment "${takes[@]}" "$out/design.toml" -o "$out/result.json" | tee "$out/verdict.txt" || code=$?
# Adopted, no benefit or inconclusive, harmful: all of them are verdicts.
[[ $code == 0 || $code == 4 || $code == 5 ]] || { echo "it came to no end: exit code $code"; exit "$code"; }
"$forebay" tune report "$out/result.json" -o "$out/report.html"
# Readers of the report need no paths of this machine.
sed -i "s|\"$here/|\"tests/tune/|; s|\"$forebay\"|\"forebay\"|" "$out/design.toml" "$out/result.json"
gzip -9n "$out/result.json"
echo "verdicts in $out/verdict.txt, drawn in $out/report.html; \`forebay tune report\` draws it again from result.json"
