# SPDX-License-Identifier: Apache-2.0
"""The fields of MPIJob that its two versions know (JSON schema), as the operator's types define them. Pod templates are
checked as Pods by the caller. Not here: fields that only the operator writes (status)."""

INTEGER = {"type": "integer", "minimum": 0}
STRING = {"type": "string", "minLength": 1}
TEMPLATE = {"type": "object", "required": ["spec"], "additionalProperties": False,
            "properties": {"metadata": {"type": "object"}, "spec": {"type": "object", "required": ["containers"]}}}


def closed(properties: dict, *required: str) -> dict:
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


def job(version: str, spec: dict, launcher: dict, worker: dict, *required: str) -> dict:
    """Of one version: the fields of the spec, and those of a launcher and of workers beside their template."""
    replicas = {"replicas": INTEGER, "template": TEMPLATE}
    spec = dict(spec, mpiReplicaSpecs=closed({
        "Launcher": closed({**replicas, "replicas": {"const": 1}, **launcher}, "template"),
        "Worker": closed({**replicas, **worker}, "template", "replicas")}, "Launcher", "Worker"))
    # The operator names pods JOB-worker-N and JOB-launcher, which must be DNS labels.
    name = {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$"}
    return closed({"apiVersion": {"const": version}, "kind": {"const": "MPIJob"},
                   "metadata": {"type": "object", "required": ["name"],
                                "properties": {"name": name, "namespace": STRING}},
                   "spec": closed(spec, "mpiReplicaSpecs", *required)}, "apiVersion", "kind", "metadata", "spec")


CLEAN = {"enum": ["None", "Running", "All"]}
RESTART = {"restartPolicy": {"enum": ["Never", "OnFailure"]}}
SCHEDULING = closed({"minAvailable": INTEGER, "queue": STRING, "minResources": {"type": "object"},
                     "priorityClass": STRING, "scheduleTimeoutSeconds": INTEGER})
SCHEMAS = {
    "kubeflow.org/v2beta1": job(
        "kubeflow.org/v2beta1",
        {"slotsPerWorker": INTEGER, "runLauncherAsWorker": {"type": "boolean"}, "sshAuthMountPath": STRING,
         "launcherCreationPolicy": {"enum": ["AtStartup", "WaitForWorkersReady"]},
         "mpiImplementation": {"enum": ["OpenMPI", "Intel", "MPICH"]},
         "runPolicy": closed({"cleanPodPolicy": CLEAN, "ttlSecondsAfterFinished": INTEGER,
                              "activeDeadlineSeconds": INTEGER, "backoffLimit": INTEGER, "schedulingPolicy": SCHEDULING,
                              "suspend": {"type": "boolean"}, "managedBy": STRING})},
        RESTART, RESTART),
    "kubeflow.org/v1alpha2": job(
        "kubeflow.org/v1alpha2",
        {"slotsPerWorker": INTEGER, "cleanPodPolicy": CLEAN, "backoffLimit": INTEGER, "activeDeadlineSeconds": INTEGER},
        RESTART, RESTART),
}
