#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The unit of systemd and the manifests of the server: what they start is a command line of the program, and what they ask
# is a path of the server. BERTH is the program.
set -u
python3 -c "import yaml" 2>/dev/null || { echo "python3 has no yaml (package python3-yaml): skipped"; exit 77; }
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "FAILED: $1"; failures=$((failures + 1)); }

# A folder that is missing is noticed after all options were read.
accepted() { # WORDS OF berth serve
    "$BERTH" "$@" >"$work/out" 2>&1 </dev/null
    [ $? -eq 66 ] || { fail "$*"; cat "$work/out"; }
}
unit=$root/deploy/systemd/berth-serve.service
read -ra words < <(sed -n 's/^ExecStart=\S* //p' "$unit" | sed "s|\${MODEL}|$work/none|; s|\$OPTIONS|--port 0|")
accepted "${words[@]}"
if command -v systemd-analyze >/dev/null; then
    sed "s|/usr/bin/berth|$BERTH|" "$unit" >"$work/berth-serve.service"
    cp "$root/deploy/systemd/berth-serve.socket" "$work/"
    systemd-analyze verify --man=no "$work/berth-serve.socket" "$work/berth-serve.service" >"$work/out" 2>&1 ||
        { fail "systemd-analyze"; cat "$work/out"; }
    grep -i "unknown" "$work/out" && fail "an unknown setting"
fi

for name in namespace deployment service scaling; do
    echo ---
    cat "$root/deploy/kubernetes/serve/$name.yaml"
done >"$work/all.yaml"
if command -v kubectl >/dev/null; then
    kubectl kustomize "$root/deploy/kubernetes/serve" >"$work/all.yaml" || fail "kubectl kustomize"
fi
python3 - "$work/all.yaml" "$root/serve/routes.c" >"$work/words" <<'END' || fail "the manifests"
import json
import re
import sys
import yaml

with open(sys.argv[1], encoding="utf-8") as file:
    kinds = {document["kind"]: document for document in yaml.safe_load_all(file)}
assert len(kinds) == 7, list(kinds)
pod = kinds["Deployment"]["spec"]["template"]
container = pod["spec"]["containers"][0]
assert kinds["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
assert kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
assert kinds["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == kinds["Deployment"]["metadata"]["name"]
words = container["args"]
option = lambda name: words[words.index(name) + 1]
assert int(option("--port")) == container["ports"][0]["containerPort"]
row = r'\{"GET", "([^"]*)", \.(?:reply = \w+|text = "(?:\\.|[^"])*"), \.is_public = 1'
public = re.findall(row, open(sys.argv[2], encoding="utf-8").read())
for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
    assert container[probe]["httpGet"]["path"] in public, (probe, public)
ready = container["readinessProbe"]
assert float(option("--drain_seconds")) > ready["periodSeconds"] * ready["failureThreshold"]
assert float(option("--drain_seconds")) + float(option("--grace_seconds")) < pod["spec"]["terminationGracePeriodSeconds"]
mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
assert {"/model", "/keys"} <= mounts and option("--model").startswith("/model/") and option("--api_key_file").startswith("/keys/")
assert "berth_queue_length" in json.dumps(kinds["HorizontalPodAutoscaler"])
print("\n".join(words))
END
mapfile -t words <"$work/words"
accepted "${words[@]}"
[ "$failures" -eq 0 ] && echo "all good"
exit $((failures > 0))
