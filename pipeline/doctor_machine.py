"""Checks of the machine: Python, packages, memory, disk, GPU. Looks only; starts nothing."""

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from pipeline.config import RunConfig
from pipeline.doctor import Finding, Level
from pipeline.local_ray import object_store_bytes
from workers.gpu_probe import nvml

DISTRIBUTION = "fastocr-batch"
PACKAGES = ("pipeline", "workers", "fastocr_core", "infra")
LEAST_PYTHON = (3, 11)
SHOWN = ("torch", "transformers", "ray", "pyarrow", "boto3", "pymupdf", "pillow", "numpy")
GIGABYTE = 1_000_000_000
LEAST_MEMORY_BYTES, GOOD_MEMORY_BYTES = 2 * GIGABYTE, 6 * GIGABYTE
LEAST_DISK_BYTES, GOOD_DISK_BYTES = 1 * GIGABYTE, 10 * GIGABYTE
SHARED_MEMORY = Path("/dev/shm")


def check_python() -> Sequence[Finding]:
    """The version."""
    found = f"Python {platform.python_version()} on {platform.system()}, {len(os.sched_getaffinity(0))} CPUs"
    if sys.version_info < LEAST_PYTHON:
        return [
            Finding(
                Level.FAIL, "python", found, f"install Python {'.'.join(map(str, LEAST_PYTHON))} or newer"
            )
        ]
    return [Finding(Level.OK, "python", found)]


def check_packages() -> Sequence[Finding]:
    """Whether what this distribution asks for is there, in versions it can work with."""
    try:
        wanted = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return [
            Finding(
                Level.WARN,
                "packages",
                f"{DISTRIBUTION} is not installed",
                "pip install -c constraints.txt -e .",
            )
        ]
    wrong = unmet(wanted, _installed())
    if wrong:
        return [Finding(Level.FAIL, "packages", "; ".join(wrong), "pip install -c constraints.txt -e .")]
    return [
        Finding(
            Level.OK,
            "packages",
            ", ".join(f"{name} {version}" for name, version in _installed().items() if name in SHOWN),
        )
    ]


def unmet(requirements: Sequence[str], installed: Mapping[str, str]) -> list[str]:
    """Requirements without an extra that no installed version meets, in words."""
    from packaging.requirements import Requirement

    problems = []
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = installed.get(requirement.name.lower())
        if version is None:
            problems.append(f"{requirement.name} is not installed")
        elif not requirement.specifier.contains(version, prereleases=True):
            problems.append(f"{requirement.name} is {version}, needed is {requirement.specifier}")
    return problems


def _installed() -> dict[str, str]:
    return {
        found.metadata["Name"].lower(): found.version
        for found in metadata.distributions()
        if found.metadata["Name"]
    }


def check_one_owner() -> Sequence[Finding]:
    """Whether our packages, whose names are common words, come from one place and nobody else brought the same."""
    homes = {name: _home(name) for name in PACKAGES}
    owners = metadata.packages_distributions()
    return judge_owners(homes, {name: sorted(set(owners.get(name, []))) for name in PACKAGES})


def judge_owners(homes: Mapping[str, Path | None], owners: Mapping[str, Sequence[str]]) -> Sequence[Finding]:
    """`homes` are the folders that hold the packages, `owners` the distributions that say they brought them."""
    lost = [name for name, home in homes.items() if home is None]
    shared = [f"{name} belongs to {' and '.join(names)}" for name, names in owners.items() if len(names) > 1]
    roots = sorted({str(home) for home in homes.values() if home is not None})
    if lost or shared or len(roots) != 1:
        found = "; ".join(
            [*(f"{name} is missing" for name in lost), *shared] or [f"packages lie in {', '.join(roots)}"]
        )
        return [
            Finding(
                Level.FAIL, "installation", found, f"install {DISTRIBUTION} into an environment of its own"
            )
        ]
    return [Finding(Level.OK, "installation", f"all packages lie in {roots[0]}")]


def _home(name: str) -> Path | None:
    found = importlib.util.find_spec(name)
    return Path(found.origin).parent.parent if found is not None and found.origin else None


def check_memory(config: RunConfig) -> Sequence[Finding]:
    """What is free now, and whether the pages on their way fit into shared memory."""
    return [
        judge_memory(_available_bytes()),
        judge_shared_memory(_shared_bytes(), wanted_store_bytes(config)),
    ]


def judge_memory(available_bytes: int) -> Finding:
    found = f"{available_bytes / GIGABYTE:.1f} GB are free"
    if available_bytes < LEAST_MEMORY_BYTES:
        return Finding(Level.FAIL, "memory", found, f"free at least {LEAST_MEMORY_BYTES / GIGABYTE:.0f} GB")
    if available_bytes < GOOD_MEMORY_BYTES:
        return Finding(
            Level.WARN, "memory", found, "enough for few actors; lower cluster.max_batch if a run is killed"
        )
    return Finding(Level.OK, "memory", found)


def judge_shared_memory(shared_bytes: int | None, store_bytes: int) -> Finding:
    """Ray keeps pages on their way in shared memory; where there is too little it goes to disk and is slow."""
    title = "shared memory"
    if shared_bytes is None:
        return Finding(
            Level.WARN, title, f"there is no {SHARED_MEMORY}", "Ray will use the disk instead, slowly"
        )
    found = f"{shared_bytes / GIGABYTE:.1f} GB in {SHARED_MEMORY}, {store_bytes / GIGABYTE:.1f} GB wanted"
    if shared_bytes < store_bytes:
        return Finding(
            Level.WARN,
            title,
            found,
            "give the container more (--shm-size), or set cluster.object_store_bytes",
        )
    return Finding(Level.OK, title, found)


def wanted_store_bytes(config: RunConfig) -> int:
    """What a local Ray will ask for."""
    return config.cluster.object_store_bytes or object_store_bytes()


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _shared_bytes() -> int | None:
    return shutil.disk_usage(SHARED_MEMORY).total if SHARED_MEMORY.is_dir() else None


def check_disk() -> Sequence[Finding]:
    """Room where Ray puts its session."""
    folder = tempfile.gettempdir()
    return [judge_disk(folder, shutil.disk_usage(folder).free)]


def judge_disk(folder: str, free_bytes: int) -> Finding:
    found = f"{free_bytes / GIGABYTE:.1f} GB are free in {folder}"
    if free_bytes < LEAST_DISK_BYTES:
        return Finding(Level.FAIL, "disk", found, "make room, or point TMPDIR elsewhere")
    if free_bytes < GOOD_DISK_BYTES:
        return Finding(
            Level.WARN, "disk", found, "little for long runs; make room, or point TMPDIR elsewhere"
        )
    return Finding(Level.OK, "disk", found)


def check_gpu() -> Sequence[Finding]:
    """NVIDIA devices, and whether torch was built to use them."""
    return [judge_gpus(_gpu_names(nvml()), metadata.version("torch"))]


def judge_gpus(names: Sequence[str] | None, torch_version: str) -> Finding:
    """`names` is None where NVML cannot be asked."""
    built_for_cpu = "+cpu" in torch_version
    if names is None and built_for_cpu:
        return Finding(
            Level.OK, "gpu", f"none in use (torch {torch_version}); large models want one, mini does not"
        )
    if names is None:
        mend = "for measurements of a GPU install nvidia-ml-py"
        return Finding(Level.WARN, "gpu", f"NVML cannot be asked (torch {torch_version})", mend)
    if not names:
        return Finding(
            Level.WARN,
            "gpu",
            f"no NVIDIA GPU (torch {torch_version})",
            "large models need one; mini does not",
        )
    found = f"{len(names)} ({', '.join(sorted(set(names)))}), torch {torch_version}"
    if built_for_cpu:
        return Finding(Level.FAIL, "gpu", found, "install the CUDA build of torch")
    return Finding(Level.OK, "gpu", found)


def _gpu_names(library: Any | None) -> list[str] | None:
    if library is None:
        return None
    count = library.nvmlDeviceGetCount()
    return [
        str(library.nvmlDeviceGetName(library.nvmlDeviceGetHandleByIndex(index))) for index in range(count)
    ]
