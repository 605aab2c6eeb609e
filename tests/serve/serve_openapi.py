# SPDX-License-Identifier: Apache-2.0
"""The server against its own OpenAPI document, by schemathesis with all its checks, for one model and for several, with and
without a key.

SCHEMATHESIS names the program (else it is looked for in PATH; without it the test is skipped), OPENAPI_SECONDS the time
for each of the three runs.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from server import MODELS, Server

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
PROGRAM = os.environ.get("SCHEMATHESIS") or shutil.which("schemathesis")
MODELS_OF_ALL_TASKS = ("qa=qa", "similar=other", "kinds=kinds", "rank=rank", f"tags={GOLDEN}/tags", f"masks={GOLDEN}/fill")
# Which texts and parameters are valid depends on the model's task, and dimensions and max_tokens_per_doc on its size, which a
# schema cannot say. Nor can it say that parameters of other tasks are ignored, whatever they are.
UNSURE = {"/": False, "/ask": True, "/models/{name}": False, "/v2/models/{name}/infer": True, "/v2/models/{name}/versions/1/infer": True,
          "/rerank": True, "/v1/rerank": True, "/v2/rerank": True, "/embed": True, "/similarity": False, "/v1/embeddings": True}
CONFIGURATION = "[checks]\nenabled = true\n" + "".join(f"""
[[operations]]
include-path = "{path}"
[operations.checks]
positive_data_acceptance.enabled = false
negative_data_rejection.enabled = {str(refuses).lower()}
""" for path, refuses in UNSURE.items())


def run(*options: str, models=MODELS_OF_ALL_TASKS, words=()) -> int:
    with Server(*options, models=models) as server:
        url = f"http://127.0.0.1:{server.port}/openapi.json"
        done = subprocess.run([PROGRAM, "run", url, "--max-time", os.environ.get("OPENAPI_SECONDS", "30"), "--seed", "1", *words],
                              cwd=MODELS, check=False, stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    if not re.search(r"\d+ generated", done.stdout):
        print("failed: no request was made; set OPENAPI_SECONDS to a longer time")
        return 1
    return done.returncode


def main() -> int:
    if not PROGRAM:
        print("skipped: needs schemathesis (pip install schemathesis; SCHEMATHESIS names the program)")
        return 77
    (MODELS / "keys").write_text("a-key\n", encoding="utf-8")
    (MODELS / "schemathesis.toml").write_text(CONFIGURATION, encoding="utf-8")
    results = [run(models=["qa=qa"]), run(), run("--api_key_file", str(MODELS / "keys"), words=["-H", "Authorization: Bearer a-key"])]
    return int(any(results))


if __name__ == "__main__":
    sys.exit(main())
