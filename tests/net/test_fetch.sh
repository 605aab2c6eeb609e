#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# berth fetch from the command line, against a small hub: the example of doc/fetch.md, streams and
# exit codes, Ctrl-C and resuming, the progress bar on a terminal, the downloads of other programs.
. "$(dirname "$0")/../cli/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
unset HF_HUB_OFFLINE TRANSFORMERS_OFFLINE HF_DATASETS_OFFLINE HF_HUB_CACHE HF_TOKEN http_proxy \
    https_proxy all_proxy
export HF_HOME=$work/home OMP_WAIT_POLICY=passive
trap '[ "$BASHPID" -ne $$ ] || { stop_server; rm -rf "$work"; }' EXIT

make_model "$work/model"
cd "$work" || exit 1
server=
stop_server() {
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null
    server=
}
start_server() { # [hold|cut]
    stop_server
    rm -f port requests
    "$SERVE_HUB" model acme/tiny port requests "$@" &
    server=$!
    until [ -s port ] || ! kill -0 $server; do sleep 0.05; done
    export HF_ENDPOINT=http://127.0.0.1:$(cat port)
}
snapshot=$HF_HOME/hub/models--acme--tiny/snapshots/00112233445566778899aabbccddeeff00112233
partial() { find "$work" -name '*.incomplete' -size +0; }

# --- Ctrl-C, then resuming ----------------------------------------------------------------------

start_server hold
what="fetch, interrupted"
"$BERTH" fetch acme/tiny >"$out" 2>"$err" </dev/null &
fetching=$!
until [ "$(stat -c %s $(partial) 2>/dev/null)" = 1000 ] || ! kill -0 $fetching; do sleep 0.05; done
kill -INT $fetching
wait $fetching
code=$?
expect_code 130
expect_err "what was downloaded is kept"
expect_empty "$out"
[ ! -e "$snapshot" ] || fail "a snapshot was published"
start_server
run fetch acme/tiny
expect_code 0
expect_out "$snapshot"
expect_empty "$err"
[ "$(wc -l <"$out")" -eq 1 ] || fail "more than a path on standard output"
cmp -s model/model.safetensors "$snapshot/model.safetensors" || fail "other weights"
[ -z "$(partial)" ] || fail "a partial file is left"
stop_server
grep -q "Range: bytes=1000-" requests || fail "it was not resumed"

# --- streams ------------------------------------------------------------------------------------

start_server cut
rm -rf "$HF_HOME"
run fetch acme/tiny
expect_code 0
expect_err "trying again"
expect_no "$err" "%"
run fetch acme/tiny --json --quiet
expect_code 0
expect_out "{\"name\":\"acme/tiny\",\"path\":\"$snapshot\"}"
expect_empty "$err"
rm -rf "$HF_HOME"
what="fetch on a terminal"
"$ON_TERMINAL" 100 "$BERTH" fetch acme/tiny >"$out" 2>"$err"
code=$?
expect_code 0
expect_out "model.safetensors  "
expect_out "KiB"
rm -rf "$HF_HOME"
HF_HUB_DISABLE_PROGRESS_BARS=1 "$ON_TERMINAL" 100 "$BERTH" fetch acme/tiny >"$out" 2>"$err"
expect_no "$out" "KiB"
run fetch acme/none
expect_code 66
expect_err "not found"
run fetch
expect_code 2
run fetch a b
expect_code 2
run fetch acme/tiny --sha256 00
expect_code 2
HF_ENDPOINT=http://127.0.0.1:1 run fetch acme/tiny --retries 0
expect_code 69
[ "$(wc -l <"$err")" -eq 1 ] || fail "more than the error"
# The reason once, however often it was tried, and what to do.
HF_ENDPOINT=http://127.0.0.1:1 run fetch acme/tiny --retries 3
expect_code 69
expect_empty "$out"
[ "$(wc -l <"$err")" -eq 2 ] || fail "more than a note and the error"
expect_err 'acme/tiny, revision main: the transfer failed; trying again (--retries 3)'
[ "$(grep -ci connect "$err")" -eq 1 ] || fail "not one reason"
for remedy in https_proxy HF_ENDPOINT 'by hand (doc/fetch.md)'; do
    expect_err "$remedy"
done
grep -qx '## Without a network' "$here/../../doc/fetch.md" || fail "no such part of doc/fetch.md"
# The README's commands leave nothing behind where the downloads fail.
what="the README's downloads without a network"
mkdir nothing
grep '=$(berth fetch' "$here/../../README.md" >readme.sh
(cd nothing && PATH=$(dirname "$BERTH"):$PATH HF_HUB_OFFLINE=1 bash ../readme.sh) >"$out" 2>"$err"
[ "$(wc -l <readme.sh)" -eq 2 ] || fail "the README's commands are not found"
expect_empty "$out"
[ -z "$(ls -A nothing)" ] || fail "left: $(ls nothing)"
[ "$(grep -c 'berth: error: ' "$err")" -eq "$(wc -l <"$err")" ] || fail "other errors"
HF_HUB_OFFLINE=1 run fetch acme/other
expect_code 69
expect_err HF_HUB_OFFLINE

# --- the cache ------------------------------------------------------------------------------------

run fetch --list --json
expect_code 0
python3 - "$out" "$HF_HOME" <<'END' || fail "not what the cache holds"
import json, pathlib, sys
row, = map(json.loads, open(sys.argv[1]))
folder = pathlib.Path(sys.argv[2], "hub/models--acme--tiny")
assert row == {"kind": "model", "name": "acme/tiny", "path": str(folder),
               "bytes": sum(path.stat().st_size for path in (folder / "blobs").iterdir())}, row
END
run fetch --list
grep -qE '^model +[0-9.]+ [KM]iB  acme/tiny$' "$out" || fail "not the model and its size"
run fetch --list acme/tiny
expect_code 2
run fetch
expect_code 2
expect_err "name what to fetch"
cp -a "$HF_HOME" kept
run fetch acme/other --remove
expect_code 66
expect_err 'acme/other is not in the cache'
run fetch ../hub --remove
expect_code 2
[ -d "$snapshot" ] || fail "another model was removed"
run fetch acme/tiny --remove
expect_code 0
expect_err "models--acme--tiny was removed"
[ ! -e "$HF_HOME/hub/models--acme--tiny" ] && [ ! -e "$HF_HOME/hub/.locks/models--acme--tiny" ] && [ -d "$HF_HOME/hub" ] ||
    fail "not the model alone"
run fetch --list
expect_empty "$out"
rm -rf "$HF_HOME" && mv kept "$HF_HOME"

# --- what else downloads, and what does not -----------------------------------------------------

rm -rf "$HF_HOME"
run finetune squad --model acme/tiny --train none --output none --download_only
expect_code 2
expect_err 'unknown option --download_only; 3_squad_bert_deepspeed.py of piz-daint has it'
[ ! -e "$HF_HOME" ] || fail "it downloaded"
# No other verb downloads, whatever names it has.
run finetune squad --model acme/tiny --train none --output none
[ "$code" -ne 0 ] && [ ! -e "$HF_HOME" ] && [ ! -e none ] || fail "it downloaded"
run fetch acme/tiny
expect_code 0
run answer --model acme/tiny --question "Where?" --context "Ada lived in Oslo." --quiet
expect_code 0
for data in squad squad-v1.1 squad_v2 squad-v2.0; do
    HF_DATASETS_OFFLINE=1 run fetch $data
    expect_code 69
    expect_err "$data is not in the cache"
done
# The demos download their model and data: Piz Daint's and LUMI's, here with a cache without them.
for program in 3_squad_bert_deepspeed.py bert_squad_deepspeed.py; do
    run as --print_command $program --download_only --deepspeed
    expect_code 0
    printf 'set -e\nberth fetch bert-base-uncased\nberth fetch squad\n' | cmp -s - "$out" || fail "other commands"
done
HF_HUB_OFFLINE=1 run as 3_squad_bert_deepspeed.py --download_only
expect_code 69
expect_err "bert-base-uncased, revision main, is not in the cache"

# --- TLS: an unknown certificate is refused, one named by the environment is trusted -----------

unset CURL_CA_BUNDLE REQUESTS_CA_BUNDLE SSL_CERT_FILE
if ! command -v openssl >/dev/null; then
    echo "no openssl: TLS is not tried"
else
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 \
        -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>"$err" || fail "no certificate"
    mkdir tls && printf 'HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nsafe\n' >tls/text
    (cd tls && exec openssl s_server -accept 0 -cert ../cert.pem -key ../key.pem -HTTP) >tls.log 2>&1 &
    tls=$!
    until grep -q '^ACCEPT .*:[0-9]' tls.log || ! kill -0 $tls; do sleep 0.1; done
    port=$(sed -n 's/^ACCEPT .*:\([0-9]*\).*/\1/p' tls.log) # any that is free
    run fetch "https://localhost:$port/text"
    expect_code 69
    expect_err "SSL_CERT_FILE names another file of certificates"
    SSL_CERT_FILE=$work/nowhere.pem run fetch "https://localhost:$port/text"
    expect_code 69
    expect_err "Install the certificates of authorities (Debian: ca-certificates)"
    SSL_CERT_FILE=$work/cert.pem run fetch "https://localhost:$port/text"
    expect_code 0
    grep -q safe "$(cat "$out")" || fail "what TLS brought"
    kill $tls
    wait $tls 2>/dev/null
fi

# --- the example of the documentation -----------------------------------------------------------

rm -rf "$HF_HOME"
mkdir example && cp model/* example/
sed -n '/^```sh$/,/^```$/p' "$here/../../doc/fetch.md" | grep -v '^```' |
    sed "s|https://example.org|$HF_ENDPOINT|; s|example/tiny|acme/tiny|" >example.sh
[ -s example.sh ] || fail "no example in doc/fetch.md"
digest=$(sha256sum model/vocab.txt | cut -d' ' -f1)
sed -i "s/DIGEST/$digest/" example.sh
what="the example of doc/fetch.md"
PATH=$(dirname "$BERTH"):$PATH bash -eu example.sh >"$out" 2>"$err" </dev/null
code=$?
expect_code 0
expect_out Oslo
stop_server
finish
