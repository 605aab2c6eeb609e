#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the manifests of deploy/kubernetes/voyager, as kubectl has rendered them for the user 4321:8765 named "me":

    voyager.py check FOLDER     every field is one that Kubernetes or the MPI operator knows, and every pod is one of an
                                ordinary user
    voyager.py processes FILE   prints how many processes start
    voyager.py command FILE     prints what each of them runs, as a line for a shell

The schemas are closed: a field that is not in them is a problem. They have the fields that the manifests use, not all of
Kubernetes'.
"""
import pathlib
import re
import shlex
import sys

import jsonschema
import yaml

import mpijob

STRING = {"type": "string", "minLength": 1}
QUANTITY = {"type": "string", "pattern": "^[0-9]+(Mi|Gi)?$"}
WORDS = {"type": "array", "items": STRING, "minItems": 1}
EMPTY = {"type": "object", "additionalProperties": False, "properties": {"medium": {"const": "Memory"}}}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}


def closed(properties: dict, *optional: str) -> dict:
    return {"type": "object", "additionalProperties": False, "properties": properties,
            "required": [name for name in properties if name not in optional]}


def lists(item: dict) -> dict:
    return {"type": "array", "items": item, "minItems": 1}


RESOURCES = closed({"cpu": QUANTITY, "memory": QUANTITY})
ORDINARY = closed({"allowPrivilegeEscalation": {"const": False}, "readOnlyRootFilesystem": {"const": True},
                   "capabilities": {"const": {"drop": ["ALL"]}}})
CONTAINER = closed({
    "name": STRING, "image": {"type": "string", "pattern": "^registry.example.org/berth(-openmpi)?:[0-9.]+$"},
    "command": WORDS, "args": WORDS, "env": lists(closed({"name": STRING, "value": STRING})),
    "readinessProbe": closed({"tcpSocket": closed({"port": PORT})}), "securityContext": ORDINARY,
    "resources": closed({"requests": RESOURCES, "limits": RESOURCES}),
    "volumeMounts": lists(closed({"name": STRING, "mountPath": STRING, "subPath": STRING}, "subPath"))},
    "command", "args", "env", "readinessProbe")
PASSWD = closed({"items": lists(closed({"path": STRING, "fieldRef": closed({"fieldPath": STRING})}))})
VOLUME = {"oneOf": [
    closed({"name": STRING, "hostPath": closed({"path": {"const": "/voyager/ceph/users/me"}, "type": {"const": "Directory"}})}),
    closed({"name": STRING, "emptyDir": EMPTY}), closed({"name": STRING, "downwardAPI": PASSWD})]}
SPEC = closed({
    "restartPolicy": {"enum": ["OnFailure", "Never"]}, "terminationGracePeriodSeconds": {"type": "integer", "minimum": 300},
    "enableServiceLinks": {"const": False}, "automountServiceAccountToken": {"const": False},
    "securityContext": closed({"runAsNonRoot": {"const": True}, "runAsUser": {"const": 4321}, "runAsGroup": {"const": 8765},
                               "seccompProfile": {"const": {"type": "RuntimeDefault"}}}),
    "volumes": lists(VOLUME), "containers": {"type": "array", "items": CONTAINER, "minItems": 1, "maxItems": 1}},
    "restartPolicy")
POD = closed({"apiVersion": {"const": "v1"}, "kind": {"const": "Pod"},
              "metadata": closed({"name": STRING, "namespace": STRING}, "namespace"),
              "spec": {**SPEC, "required": SPEC["required"] + ["restartPolicy"]}})
# What the operator's template has beside a pod's specification: the name of ssh's user.
TEMPLATE = closed({"metadata": closed({"annotations": {"const": {"berth/passwd": "berth:x:4321:8765::/work:/bin/bash"}}}),
                   "spec": SPEC})
NAMES = {"data_gen", "bert_inference_1card", "bert_ftuning_8cards",
         *(f"bert_phase{phase}_{count}" for phase in (1, 2) for count in ("1card", "8cards", "32cards"))}
# Sequences of an update of both phases, from one card on.
UPDATES = {"phase1": {1: 8192, 8: 65536, 32: 65536}, "phase2": {1: 4096, 8: 32768, 32: 32768}}


def read(path: pathlib.Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def templates(resource: dict) -> dict:
    replicas = resource["spec"].get("mpiReplicaSpecs")
    return {role: part["template"] for role, part in replicas.items()} if replicas else {"Pod": resource}


def first(resource: dict) -> dict:
    """The container whose command line is the program's."""
    pods = templates(resource)
    return pods.get("Launcher", pods.get("Pod"))["spec"]["containers"][0]


def words(resource: dict) -> list:
    """What a process runs, with the variables' values."""
    container = first(resource)
    line = " ".join(shlex.quote(word) for word in container.get("command", ["berth"]) + container.get("args", []))
    for entry in container.get("env", []):
        line = line.replace(f"$({entry['name']})", entry["value"])
    line = shlex.split(line)
    return line[line.index("berth"):] if line[0] == "berth-mpirun" else line


def processes(resource: dict) -> int:
    if resource["kind"] == "Pod":
        return 1
    return resource["spec"]["slotsPerWorker"] * resource["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]


def faults(schema: dict, resource: dict):
    for error in jsonschema.Draft7Validator(schema).iter_errors(resource):
        yield f"{'.'.join(map(str, error.path))}: {error.message}"


def mpi(resource: dict):
    yield from faults(mpijob.SCHEMAS["kubeflow.org/v2beta1"], resource)
    for template in templates(resource).values():
        yield from faults(TEMPLATE, template)
    arguments = first(resource).get("args", [])
    if arguments[:2] != ["-np", str(processes(resource))]:
        yield f"mpirun {arguments[:2]} for {processes(resource)} slots"


def mounts(template: dict):
    spec = template["spec"]
    for container in spec["containers"]:
        names = {mount["name"] for mount in container["volumeMounts"]}
        if names != {volume["name"] for volume in spec["volumes"]}:
            yield f"mounts {sorted(names)}"
        unset = re.findall(r"\$\(\w+\)", " ".join(words({"kind": "Pod", "spec": spec})))
        if unset:
            yield f"{unset[0]} has no value"


def batch(name: str, resource: dict):
    for phase, updates in UPDATES.items():
        if phase in name:
            own = int(next(word for word in words(resource) if word.startswith("--train_batch_size=")).split("=")[1])
            count = processes(resource)
            if own * count != updates[count]:
                yield f"{count} processes x {own}, expected {updates[count]}"


def check(folder: pathlib.Path):
    paths = sorted(folder.glob("*.yaml"))
    if {path.stem for path in paths} != NAMES:
        yield f"the files differ by {sorted({path.stem for path in paths} ^ NAMES)}"
    for path in paths:
        resource = read(path)
        found = list(mpi(resource) if resource["kind"] == "MPIJob" else faults(POD, resource))
        for template in templates(resource).values():
            found += mounts(template)
        found += batch(path.stem, resource)
        yield from (f"{path.stem}: {problem}" for problem in found)


def main(verb: str, path: str) -> int:
    path = pathlib.Path(path)
    if verb == "check":
        problems = list(check(path))
        print("\n".join(problems))
        return 1 if problems else 0
    resource = read(path)
    print(processes(resource) if verb == "processes" else shlex.join(words(resource)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
