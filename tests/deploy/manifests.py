#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rendered manifests of deploy/kubernetes and examples/k8s:

    manifests.py check FOLDER     FOLDER/NAME.yaml for each overlay and FOLDER/namespace.yaml, with UID 4321 and GID 8765
    manifests.py intel FOLDER     FOLDER/NAME.yaml for each overlay of examples/k8s/mlops, with the same user
    manifests.py validate FOLDER  against Kubernetes' own schemas, by the Python package kubernetes-validate
    manifests.py commands FILE    prints what the pods run, a shell's line each, with their variables

check: every pod is one that the restricted profile of PodSecurity admits, has its user, paths and volumes from
settings.env, mounts what it names, keeps its root file system, may save before it is killed, and names existing scripts and
verbs; a network policy admits it; MPIJobs have the fields of their version; what one overlay deletes belongs to it alone.
intel: the same of pods and MPIJobs; pods are found by the names that Intel's documents search for; volumes, mounts, images
and the number of processes follow mlops.env and the number of workers. Exits 1 and names each problem.
"""
import pathlib
import re
import shlex
import sys

import jsonschema
import yaml

import mpijob

UID, GID = 4321, 8765
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
VARIABLES = {"DATASET_DIR", "CHECKPOINT_DIR", "OUTPUT_DIR"}
SHARED = {"Namespace", "PersistentVolumeClaim", "NetworkPolicy"}


def resources(path: pathlib.Path) -> list:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def templates(resource: dict) -> dict:
    """The pods that a resource makes, by role."""
    spec = resource.get("spec", {})
    if resource["kind"] == "Pod":
        return {"pod": resource}
    if resource["kind"] == "Job":
        return {"pod": spec["template"]}
    return {role: part["template"] for role, part in spec.get("mpiReplicaSpecs", {}).items()}


def restricted(pod: dict):
    """The rules of the restricted profile, and those of Berth's pods that are stricter."""
    spec = pod["spec"]
    user = spec.get("securityContext", {})
    expected = {"runAsNonRoot": True, "runAsUser": UID, "runAsGroup": GID, "fsGroup": GID,
                "seccompProfile": {"type": "RuntimeDefault"}}
    if user != expected:
        yield f"securityContext: {user}"
    for host in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(host):
            yield host
    for volume in spec.get("volumes", []):
        kinds = set(volume) - {"name"}
        if not kinds <= VOLUMES:
            yield f"volume {kinds}"
    for container in spec["containers"] + spec.get("initContainers", []):
        context = container.get("securityContext", {})
        if context != {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}:
            yield f"container's securityContext: {context}"
        if any("hostPort" in port for port in container.get("ports", [])):
            yield "hostPort"


def settings(pod: dict):
    """What comes from settings.env, and what must be there for it."""
    spec = pod["spec"]
    if f":{UID}:{GID}:" not in pod["metadata"]["annotations"]["berth/passwd"]:
        yield "the user has no name"
    if pod["metadata"]["labels"].get("app.kubernetes.io/name") != "berth":
        yield "no network policy admits it"
    if spec.get("terminationGracePeriodSeconds", 30) < 300:
        yield "it may be killed while it saves"
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    claims = [volumes[name].get("persistentVolumeClaim", {}).get("claimName") for name in ("data", "output")]
    if claims != ["other-data", "other-output"]:
        yield f"claims {claims}"
    for container in spec["containers"]:
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        if set(mounts) != set(volumes) or mounts["data"] != "/other/data":
            yield f"mounts {mounts}"
        variables = {entry["name"]: entry["value"] for entry in container["env"]}
        if not VARIABLES <= set(variables) or variables["DATASET_DIR"] != "/other/data/sets":
            yield f"variables {variables}"
        used = set(re.findall(r"\$\((\w+)\)", " ".join(container.get("args", []))))
        if not used <= set(variables):
            yield f"arguments use {used - set(variables)}"
        if "set" in variables.values() or "requests" not in container.get("resources", {}):
            yield "unset variables or resources"
        if not container["image"].startswith("registry.example.org/berth"):
            yield f"image {container['image']}"


def commands(pod: dict, source: pathlib.Path):
    """Programs of the image exist."""
    ours = {path.name for folder in ("deploy/scripts", "deploy/container/bin") for path in (source / folder).iterdir()}
    for container in pod["spec"]["containers"]:
        program = container.get("command", ["berth"])[0]
        if program not in ours | {"berth", "bash", "/usr/sbin/sshd"}:
            yield f"no program {program}"


def mpi_job(resource: dict):
    schema = mpijob.SCHEMAS.get(resource["apiVersion"])
    if schema is None:
        yield f"no schema of {resource['apiVersion']}"
        return
    for error in jsonschema.Draft7Validator(schema).iter_errors(resource):
        yield f"{'.'.join(map(str, error.path))}: {error.message}"
    if resource["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] < 2:
        yield "not several workers"


def check(folder: pathlib.Path, source: pathlib.Path):
    owners = {}
    kinds = set()
    for path in sorted(folder.glob("*.yaml")):
        for resource in resources(path):
            name = f"{resource['kind']}/{resource['metadata']['name']}"
            kinds.add((resource["apiVersion"], resource["kind"]))
            if owners.setdefault(name, path.stem) != path.stem:
                yield f"{path.stem}: deleting it also deletes {name} of {owners[name]}"
            if (path.stem == "namespace") != (resource["kind"] in SHARED):
                yield f"{path.stem}: {name} belongs elsewhere"
            if resource["kind"] != "Namespace" and resource["metadata"].get("namespace") != "berth":
                yield f"{path.stem}: {name} is in another namespace"
            for role, pod in templates(resource).items():
                for problem in [*restricted(pod), *settings(pod), *commands(pod, source)]:
                    yield f"{path.stem}: {name}, {role}: {problem}"
            if resource["kind"] == "MPIJob":
                for problem in mpi_job(resource):
                    yield f"{path.stem}: {name}: {problem}"
    wanted = {("batch/v1", "Job"), ("kubeflow.org/v2beta1", "MPIJob"), ("networking.k8s.io/v1", "NetworkPolicy"),
              ("v1", "Namespace"), ("v1", "PersistentVolumeClaim")}
    for kind in sorted(wanted - kinds):
        yield f"no {kind}"


def intel_pod(pod: dict, variables: dict, source: pathlib.Path):
    """A pod of examples/k8s/mlops."""
    spec = pod["spec"]
    claims = {volume["name"]: volume.get("persistentVolumeClaim", {}).get("claimName") for volume in spec["volumes"]}
    if claims != {"datasets": "datasets-pvc", "users": "users-pvc", "tmp": None, "home": None, "shm": None}:
        yield f"claims {claims}"
    if spec.get("terminationGracePeriodSeconds", 30) < 300:
        yield "it may be killed while it saves"
    container, = spec["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    if mounts != {"datasets": variables["DATASET_DIR"], "users": "/Users", "tmp": "/tmp", "home": "/work", "shm": "/dev/shm"}:
        yield f"mounts {mounts}"
    if container["envFrom"] != [{"configMapRef": {"name": "mlops-env"}}]:
        yield "it does not have the variables of mlops.env"
    if not container["image"].startswith(variables["REGISTRY"] + "/berth:"):
        yield f"image {container['image']}"
    for command in container.get("command", []):
        script = source / "deploy/scripts" / command.removeprefix("$(MODEL_DIR)/examples/")
        if not script.is_file():
            yield f"no script {command}"


def intel(folder: pathlib.Path, source: pathlib.Path):
    names = set()
    for path in sorted(folder.glob("*.yaml")):
        made = {resource["kind"]: resource for resource in resources(path)}
        variables = made["ConfigMap"]["data"]
        volumes = {resource["metadata"]["name"]: resource["spec"] for resource in resources(path)
                   if resource["kind"] == "PersistentVolume"}
        if volumes["datasets-pv"]["hostPath"]["path"] != variables["DATASET_DIR"] or volumes["users-pv"]["nfs"] != {
                "server": variables["NFS_SERVER"], "path": variables["NFS_PATH"]}:
            yield f"{path.stem}: volumes {volumes}"
        run = made.get("MPIJob", made.get("Pod"))
        if run["kind"] == "Pod":
            names.add(run["metadata"]["name"])
        for role, pod in templates(run).items():
            if run["kind"] == "MPIJob":
                names.add(f"{run['metadata']['name']}-{role.lower()}")
            for problem in [*restricted(pod), *intel_pod(pod, variables, source)]:
                yield f"{path.stem}: {role}: {problem}"
        if run["kind"] == "MPIJob":
            yield from (f"{path.stem}: {problem}" for problem in mpi_job(run))
            replicas = run["spec"]["mpiReplicaSpecs"]
            count, = replicas["Launcher"]["template"]["spec"]["containers"][0]["env"]
            if count != {"name": "MPI_NUM_PROCESSES", "value": str(replicas["Worker"]["replicas"])}:
                yield f"{path.stem}: {count} for {replicas['Worker']['replicas']} workers"
    # `kubectl get pods -oname | grep launch`, and `grep training`.
    if names != {"bert-large-fp32-training", "bert-large-fp32-training-launcher", "bert-large-fp32-training-worker"}:
        yield f"pods {names}"


def validate(folder: pathlib.Path):
    import kubernetes_validate  # not a Debian package
    for path in sorted(folder.glob("*.yaml")):
        for resource in resources(path):
            # The pods of an MPIJob, as Pods; the rest of it is mpi_job's.
            documents = [resource] if resource["kind"] != "MPIJob" else [
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": role.lower(), **pod.get("metadata", {})},
                 "spec": pod["spec"]} for role, pod in templates(resource).items()]
            for document in documents:
                try:
                    kubernetes_validate.validate(document, "1.30", strict=True)
                except kubernetes_validate.ValidationError as error:
                    yield f"{path.stem}: {document['kind']}: {'.'.join(map(str, error.path))}: {error.message}"


def command_lines(path: pathlib.Path):
    settings_of = {resource["metadata"]["name"]: resource["data"] for resource in resources(path)
                   if resource["kind"] == "ConfigMap"}
    for resource in resources(path):
        for pod in templates(resource).values():
            for container in pod["spec"]["containers"]:
                variables = {name: value for source in container.get("envFrom", [])
                             for name, value in settings_of[source["configMapRef"]["name"]].items()}
                variables.update((entry["name"], entry["value"]) for entry in container.get("env", []))
                words = [re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], word)
                         for word in container.get("command", ["berth"]) + container.get("args", [])]
                yield shlex.join(["env", *(f"{name}={value}" for name, value in variables.items()), *words])


def main(verb: str, folder: str) -> int:
    if verb == "commands":
        print("\n".join(command_lines(pathlib.Path(folder))))
        return 0
    source = pathlib.Path(__file__).resolve().parents[2]
    checks = {"check": check, "intel": intel, "validate": lambda rendered, _: validate(rendered)}
    problems = list(checks[verb](pathlib.Path(folder), source))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
