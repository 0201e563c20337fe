"""Checks that start something: the model reads a page of known text, and Ray runs a task."""

import difflib
from collections.abc import Sequence

from pipeline.config import RunConfig
from pipeline.doctor import Finding, Level
from pipeline.local_ray import ray_session
from workers.model_copy import ModelSource
from workers.self_test import KNOWN_TEXTS, known_page

LIKE_ENOUGH = 0.7  # unrelated prose is alike to about 0.4
READS_NOTHING = "tiny"  # a toy with random weights: it shows that pages go through, not what they say
TASK_SECONDS = 60.0


def check_model(config: RunConfig) -> Sequence[Finding]:
    """Load the model as an OCR actor does and let it read a page of its self-test."""
    from fastocr_core import Engine, load

    source = ModelSource(config.model, config.model_revision, config.storage, config.cluster.model_cache)
    try:
        model = load(source.local(), revision=source.loaded_revision, mode=config.mode)
    except (ValueError, FileNotFoundError) as error:
        return [Finding(Level.FAIL, "model", str(error), "check --model, and that its files are here")]
    with Engine(model, policy=config.decode, max_batch=1, limits=config.engine) as engine:
        (page,) = engine.read([known_page(KNOWN_TEXTS[0])], config.prompt)
    where = f"{config.model} (revision {model.revision}) on {model.device}"
    return [judge_reading(config.model, where, page.text, page.finish_reason, page.error)]


def judge_reading(model: str, where: str, text: str, finish_reason: str, error: str | None) -> Finding:
    """Whether the known page was read as what it says."""
    if finish_reason == "error":
        return Finding(
            Level.FAIL, "model", f"{where} failed on a known page: {error}", "report it with this line"
        )
    if model == READS_NOTHING:
        return Finding(Level.OK, "model", f"{where} loads and decodes; it is a toy and reads nothing")
    likeness = difflib.SequenceMatcher(
        None, " ".join(KNOWN_TEXTS[0].split()), " ".join(text.split()), autojunk=False
    ).ratio()
    if likeness < LIKE_ENOUGH:
        found = f"{where} read only {likeness:.0%} of a known page"
        return Finding(
            Level.FAIL, "model", found, "weights, revision or prompt do not fit; do not run with it"
        )
    return Finding(Level.OK, "model", f"{where} read {likeness:.0%} of a known page")


def check_ray(config: RunConfig) -> Sequence[Finding]:
    """Start a Ray as a run does, or join the cluster, and run one task in it."""
    with ray_session(config.cluster):
        import ray

        resources = ray.cluster_resources()
        address = config.cluster.ray_address
        where = "a local Ray starts" if address is None else f"the cluster at {address} answers"
        found = (
            f"{where}: {resources.get('CPU', 0):g} CPUs, {resources.get('GPU', 0):g} GPUs, "
            f"{resources.get('object_store_memory', 0) / 1e9:.1f} GB for pages on their way"
        )
        task = ray.remote(num_cpus=0.1)(_answer).remote()
        try:
            ray.get(task, timeout=TASK_SECONDS)
        except ray.exceptions.GetTimeoutError:
            mend = "the cluster has no room, or its nodes are not there yet"
            return [Finding(Level.FAIL, "ray", f"{where}, but ran no task in {TASK_SECONDS:.0f} s", mend)]
    return [Finding(Level.OK, "ray", found)]


def _answer() -> int:
    return 42
