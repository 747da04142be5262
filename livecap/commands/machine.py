"""This machine -> checks: processor, memory, settings, folders and terminal. Loads no model."""

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from livecap.checkpoints.cache import hub_cache

OLDEST = (3, 11)  # of Python, as in pyproject.toml
LITTLE = 1 << 30  # bytes of memory below which only the smallest models run well
SPIN_LIMIT = 10_000  # rounds that a waiting thread may spin before it harms other programs
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, how it is, and what to do about it."""

    state: Literal["ok", "warn", "fault"]
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.state:5}  {self.what}" + (f"  ({self.remedy})" if self.remedy else "")


def python() -> Check:
    """The interpreter."""
    what = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < OLDEST:
        return Check("fault", what, f"Install Python {OLDEST[0]}.{OLDEST[1]} or later.")
    return Check("ok", what)


def torch() -> Check:
    """torch: there, and of a version that livecap knows."""
    try:
        import torch
    except (ImportError, OSError) as error:
        reason = str(error).splitlines()[0]
        return Check("fault", f"torch can't be loaded: {reason}", "Run: pip install 'torch>=2.9'")
    what = f"torch {torch.__version__}, {torch.get_num_threads()} threads"
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < (2, 9):
        return Check("fault", what, "Run: pip install 'torch>=2.9'")
    return Check("ok", what)


def processor() -> Check:
    """What `--precision auto` comes to here."""
    from livecap.engine.layers import choose, choose_device, has_bf16, has_int8

    device = choose_device("auto")
    auto = choose("auto", device)
    chosen = f"{device}, tower {_short(auto.tower)}, decoder {_short(auto.decoder)}"
    if auto.int8 != "no":
        chosen += f", {auto.int8} decoder weights int8"
    skills = [name for name, there in (("bf16", has_bf16()), ("VNNI", has_int8())) if there]
    what = f"{cores()} cores, {' and '.join(skills) or 'neither bf16 nor VNNI'}; auto is {chosen}"
    return Check("ok", what)


def _short(dtype: object) -> str:
    return {"torch.float32": "fp32", "torch.bfloat16": "bf16"}.get(str(dtype), str(dtype))


def cores(
    quota: Path = Path("/sys/fs/cgroup/cpu.max"),  # of a container, control groups version 2
) -> int:
    """Processor cores that this process may use."""
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota_us, period = quota.read_text("ascii").split()
    except (OSError, ValueError):
        return count
    return count if quota_us == "max" else max(1, min(count, round(int(quota_us) / int(period))))


def memory(needed: int = 0, *, available: int | None = None) -> Check:
    """Memory that is free, against what a model's weights take (bytes)."""
    free = _available() if available is None else available
    if free is None:
        return Check("ok", "memory: how much is free can't be told here")
    what = f"{free / 1e9:.1f} GB of memory available"
    if free < 2 * needed:  # while it is read, a model is there twice
        remedy = "Close other programs, or use a smaller model."
        return Check("warn", f"{what}; this model may need {2 * needed / 1e9:.1f} GB", remedy)
    if free < LITTLE:
        return Check("warn", what, "Close other programs, or expect only tiny models to fit.")
    return Check("ok", what)


def _available() -> int | None:
    """Bytes, None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        facts = dict(line.split(":") for line in lines)
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return None


def cache() -> Check:
    """The folder that pulled models go to."""
    folder = hub_cache()
    existing = next(
        folder_or_parent
        for folder_or_parent in (folder, *folder.parents)
        if folder_or_parent.exists()
    )
    remedy = "Set HF_HOME to a folder that can be written."
    if not existing.is_dir():
        return Check("warn", f"models can't be pulled: {existing} is no folder", remedy)
    if not os.access(existing, os.W_OK | os.X_OK):
        return Check("warn", f"models can't be pulled: {existing} can't be written", remedy)
    free = shutil.disk_usage(existing).free
    return Check("ok", f"models are pulled to {folder}, {free / 1e9:.0f} GB free")


def terminal(encoding: str | None) -> Check:
    """What the terminal is said to show: captions are UTF-8, whatever it takes."""
    name = (encoding or "none").lower().replace("_", "-")
    if name in ("utf-8", "utf8", "utf-8-sig"):
        return Check("ok", "the terminal takes UTF-8")
    remedy = "Set LC_ALL=C.UTF-8, or PYTHONUTF8=1."
    return Check("warn", f"captions are UTF-8, but the terminal's encoding is {name}", remedy)


def contention(environment: Mapping[str, str], *, many: int, load: float) -> Check:
    """Settings and programs that slow torch's threads down; `many` cores, `load` of the system."""
    for name in THREADS:
        value = environment.get(name, "").split(",")[0].strip()
        if value.isdigit() and int(value) > many:
            what = f"{name} is {value}, but there are {many} cores"
            return Check("warn", what, f"Unset {name}: too many threads wait for each other.")
    if environment.get("OMP_WAIT_POLICY", "").lower() == "active":
        remedy = "Unset it: waiting threads take the cores from those that work."
        return Check("warn", "OMP_WAIT_POLICY is active", remedy)
    spin = environment.get("GOMP_SPINCOUNT", "").strip()
    if spin and not (spin.isdigit() and int(spin) <= SPIN_LIMIT):
        remedy = "Unset it: waiting threads take the cores from those that work."
        return Check("warn", f"GOMP_SPINCOUNT is {spin}", remedy)
    if load > many:
        what = f"other programs keep the cores busy: load {load:.1f} on {many}"
        return Check("warn", what, "Captions take longer until they are done.")
    return Check("ok", f"threads can work undisturbed: load {load:.1f} on {many} cores")


def settings() -> Check:
    """`contention` of this machine now."""
    load = os.getloadavg()[0] if sys.platform != "win32" else 0.0
    return contention(os.environ, many=cores(), load=load)
