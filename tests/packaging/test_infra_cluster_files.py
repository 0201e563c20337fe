"""What describes a cluster fits Ray's own schema, KubeRay's fields and the settings that runs are given."""

import copy
import json
import logging
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pipeline.config import BUILT_IN_RESOURCES, ClusterSettings, RunConfig, resolve
from workers.job import vision_of
from workers.model_copy import ModelSource

EXAMPLES = sorted(path.name for path in Path(__file__).parents[2].glob("infra/examples/*.toml"))
JOB_COMMAND = "fastocr-job"
# Fields of the RayJob resource, version ray.io/v1, and what we use of the cluster inside it.
RAY_JOB_FIELDS = {
    "activeDeadlineSeconds", "backoffLimit", "clusterSelector", "deletionStrategy", "entrypoint", "entrypointNumCpus",
    "entrypointNumGpus", "entrypointResources", "jobId", "managedBy", "metadata", "rayClusterSpec", "runtimeEnvYAML",
    "shutdownAfterJobFinishes", "submissionMode", "submitterConfig", "submitterPodTemplate", "suspend",
    "ttlSecondsAfterFinished",
}  # fmt: skip
CLUSTER_FIELDS = {
    "autoscalerOptions", "enableInTreeAutoscaling", "headGroupSpec", "headServiceAnnotations", "rayVersion", "suspend",
    "workerGroupSpecs",
}  # fmt: skip
HEAD_FIELDS = {"rayStartParams", "template", "serviceType", "headService", "enableIngress"}
GROUP_FIELDS = {
    "groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "rayStartParams", "template", "scaleStrategy",
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster_file(repository: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((repository / "infra/ray_cluster.yaml").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def kube_documents(repository: Path) -> dict[str, dict[str, Any]]:
    text = (repository / "infra/kuberay/rayjob.yaml").read_text(encoding="utf-8")
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def _completed(config: dict[str, Any]) -> dict[str, Any]:
    """As `ray up` does before it asks the cloud for anything."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    completed: dict[str, Any] = prepare_config(copy.deepcopy(config))
    validate_config(completed)
    return completed


def test_ray_up_accepts_the_cluster_file(cluster_file: dict[str, Any]) -> None:
    completed = _completed(cluster_file)
    types = completed["available_node_types"]
    assert completed["head_node_type"] == "head"
    assert set(types) == {"head", "rasterize", "ocr"}
    assert types["head"]["max_workers"] == 0
    for name in ("rasterize", "ocr"):
        assert types[name]["min_workers"] < types[name]["max_workers"], f"{name} does not grow"
        assert types[name]["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert "InstanceMarketOptions" not in types["head"]["node_config"]
    installing = [*completed["head_setup_commands"], *completed["worker_setup_commands"]]
    assert installing == [], "Ray's own commands would install another Ray over the image"


@pytest.mark.parametrize("damage", ["misspelt", "no_head", "fraction"])
def test_ray_up_would_refuse_a_wrong_cluster_file(cluster_file: dict[str, Any], damage: str) -> None:
    wrong = copy.deepcopy(cluster_file)
    if damage == "misspelt":
        wrong["availabel_node_types"] = wrong.pop("available_node_types")
    elif damage == "no_head":
        wrong["head_node_type"] = "heda"
    else:
        wrong["available_node_types"]["rasterize"]["resources"]["fastocr_rasterize"] = 0.5
    with pytest.raises((ValueError, jsonschema.ValidationError, KeyError)):
        _completed(wrong)


def test_the_head_takes_no_work_and_only_readers_have_gpus(cluster_file: dict[str, Any]) -> None:
    types = cluster_file["available_node_types"]
    assert types["head"]["resources"] == {"CPU": 0}
    assert types["rasterize"]["resources"].get("GPU", 0) == 0
    assert types["ocr"]["resources"]["GPU"] >= 1
    assert types["ocr"]["docker"]["worker_image"].endswith(":gpu")


def _node_types(kind: str, cluster_file: dict[str, Any], rayjob: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Worker node types of both descriptions in Ray's words; KubeRay's by Ray's own conversion."""
    if kind == "ray up":
        types = cluster_file["available_node_types"]
        return {name: types[name] for name in ("rasterize", "ocr")}
    from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr

    resource = {
        "metadata": {"namespace": "default", "name": "fastocr"},
        "spec": rayjob["spec"]["rayClusterSpec"],
    }
    derived = _derive_autoscaling_config_from_ray_cr(resource)
    assert derived["available_node_types"]["headgroup"]["resources"]["CPU"] == 0
    return {name: derived["available_node_types"][name] for name in ("rasterize", "ocr")}


@pytest.mark.parametrize("kind", ["ray up", "KubeRay"])
def test_the_settings_ask_for_what_the_nodes_offer(
    repository: Path, cluster_file: dict[str, Any], kube_documents: dict[str, dict[str, Any]], kind: str
) -> None:
    types = _node_types(kind, cluster_file, kube_documents["RayJob"])
    settings = _cluster_settings(repository, kube_documents, kind)
    assert settings.ray_address == "auto"
    offers = {name: set(node["resources"]) - set(BUILT_IN_RESOURCES) for name, node in types.items()}
    assert offers == {"rasterize": {settings.rasterize_resource}, "ocr": {settings.ocr_resource}}
    assert settings.rasterize_actors is not None
    assert settings.ocr_actors is not None
    drawing = settings.rasterize_actors * (settings.cpus_per_rasterize_actor or 0)
    rasterize, ocr = types["rasterize"], types["ocr"]
    # One CPU of the group stays free for the tasks that feed the actors.
    assert 0 < drawing < rasterize["max_workers"] * rasterize["resources"]["CPU"]
    readers_per_node = min(
        ocr["resources"]["GPU"] // (settings.gpus_per_ocr_actor or 1),
        ocr["resources"]["CPU"] // (settings.cpus_per_ocr_actor or 1),
    )
    assert 0 < settings.ocr_actors <= ocr["max_workers"] * readers_per_node


def _cluster_settings(
    repository: Path, kube_documents: dict[str, dict[str, Any]], kind: str
) -> ClusterSettings:
    if kind == "ray up":
        return _resolved(repository / "infra/examples/cluster.toml").cluster
    values = tomllib.loads(kube_documents["ConfigMap"]["data"]["run.toml"])
    return RunConfig.model_validate({"source": "s3://scans", "target": "s3://texts", **values}).cluster


def test_the_rayjob_has_kuberays_fields_and_no_others(kube_documents: dict[str, dict[str, Any]]) -> None:
    job = kube_documents["RayJob"]
    assert job["apiVersion"] == "ray.io/v1"
    spec = job["spec"]
    assert set(spec) <= RAY_JOB_FIELDS
    assert set(spec["rayClusterSpec"]) <= CLUSTER_FIELDS
    assert set(spec["rayClusterSpec"]["headGroupSpec"]) <= HEAD_FIELDS
    assert spec["submissionMode"] in ("K8sJobMode", "HTTPMode")
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["ttlSecondsAfterFinished"] > 0
    for group in spec["rayClusterSpec"]["workerGroupSpecs"]:
        assert set(group) <= GROUP_FIELDS
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())


def test_the_pods_of_the_rayjob_mount_what_exists_and_limit_what_they_use(
    kube_documents: dict[str, dict[str, Any]],
) -> None:
    configuration = kube_documents["ConfigMap"]
    for template in _pod_templates(kube_documents["RayJob"]["spec"]["rayClusterSpec"]):
        pod = template["spec"]
        volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= set(volumes)
            limits, requests = container["resources"]["limits"], container["resources"]["requests"]
            assert requests["memory"] == limits["memory"], (
                "a node under pressure kills what exceeds its request"
            )
            assert requests.get("nvidia.com/gpu") == limits.get("nvidia.com/gpu")
        for volume in volumes.values():
            if "configMap" in volume:
                assert volume["configMap"]["name"] == configuration["metadata"]["name"]
    command = shlex.split(kube_documents["RayJob"]["spec"]["entrypoint"])
    assert command[0] == JOB_COMMAND
    mounted = Path(command[command.index("--config") + 1])
    assert mounted.name in configuration["data"]


def _pod_templates(cluster: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield cluster["headGroupSpec"]["template"]
    for group in cluster["workerGroupSpecs"]:
        yield group["template"]


def test_the_clusters_run_the_pinned_ray(repository: Path, kube_documents: dict[str, dict[str, Any]]) -> None:
    pins = (repository / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (pin,) = [line.removeprefix("ray==").rstrip("*") for line in pins if line.startswith("ray==")]
    assert kube_documents["RayJob"]["spec"]["rayClusterSpec"]["rayVersion"].startswith(pin)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_complete_configurations_without_unknown_keys(repository: Path, name: str) -> None:
    config = _resolved(repository / "infra/examples" / name)
    # Builds what the run would build first: the model must be one we know, in a mode that it has.
    vision = vision_of(ModelSource(config.model, None, config.storage), config.mode)
    assert vision.wanted_dpi > 0
    assert config.model_revision is None, "a revision belongs to the user's run, not to an example"


def test_there_are_examples_for_a_laptop_books_newspapers_and_a_cluster() -> None:
    assert {"laptop.toml", "books.toml", "newspaper.toml", "cluster.toml"} <= set(EXAMPLES)


def _resolved(file: Path) -> RunConfig:
    flags = {"source": "s3://scans/1901", "target": "s3://texts/1901"}
    return resolve(flags, file, environment={}).config


@pytest.fixture(autouse=True)
def _quiet_autoscaler(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="ray.autoscaler")


@pytest.mark.parametrize("name", ["head", "rasterize", "ocr"])
def test_ec2_knows_every_word_of_the_node_types(cluster_file: dict[str, Any], name: str) -> None:
    from botocore.session import get_session
    from botocore.validate import ParamValidator

    wanted = {**cluster_file["available_node_types"][name]["node_config"], "MinCount": 1, "MaxCount": 1}
    shape = get_session().get_service_model("ec2").operation_model("RunInstances").input_shape
    report = ParamValidator().validate(wanted, shape)
    assert not report.has_errors(), report.generate_report()


def test_the_head_may_start_the_workers_and_hand_them_their_role(
    repository: Path, cluster_file: dict[str, Any]
) -> None:
    types = cluster_file["available_node_types"]
    profiles = {name: node["node_config"]["IamInstanceProfile"]["Name"] for name, node in types.items()}
    assert profiles == {"head": "fastocr-head", "rasterize": "fastocr-worker", "ocr": "fastocr-worker"}
    allowed = _allowed(repository / "infra/aws/head-policy.json")
    assert allowed["iam:PassRole"]["Resource"].endswith(f"role/{profiles['ocr']}")
    assert "ec2:RunInstances" in allowed
    ending = allowed["ec2:TerminateInstances"]["Condition"]["StringEquals"]
    assert ending == {"aws:ResourceTag/ray-cluster-name": cluster_file["cluster_name"]}


def test_the_storage_policy_can_write_the_target_and_not_the_source(repository: Path) -> None:
    allowed = _allowed(repository / "infra/aws/iam-policy.json")
    for action in ("s3:PutObject", "s3:DeleteObject"):
        assert allowed[action]["Resource"] == ["arn:aws:s3:::texts/*"]
    assert "s3:ListBucket" in allowed


def _allowed(file: Path) -> dict[str, dict[str, Any]]:
    """The last statement that allows each action."""
    statements = json.loads(file.read_text(encoding="utf-8"))["Statement"]
    found = {}
    for statement in statements:
        assert statement["Effect"] == "Allow"
        actions = statement["Action"]
        found.update(dict.fromkeys([actions] if isinstance(actions, str) else actions, statement))
    return found
