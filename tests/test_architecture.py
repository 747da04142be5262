"""The rules of the design that can be read off the source: who imports whom, sizes, and state."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST_LINES = 320

# Imports point downward only. A module's place is the longest name here that it begins with.
LAYERS: dict[str, int] = {
    "livecap": 6,  # the command line
    "livecap.commands": 5,
    "livecap.output": 4,
    "livecap.captions": 4,
    "livecap.runtime": 4,
    "livecap.models": 3,
    "livecap.online": 2,
    "livecap.vad": 1,
    "livecap.audio": 1,
    "livecap.engine": 1,
    "livecap.checkpoints": 1,
    "livecap.tokens": 1,
    "livecap.qwen_tokens": 1,
    "livecap.text": 0,
    "livecap.languages": 0,
    "livecap.metrics": 0,
    "livecap.config": 0,
    "livecap.events": 0,
    "livecap.errors": 0,
    "towers": 0,
    "towers.train": 6,  # makes models, and measures them by livecap
}
# These know nothing of the rest of us, or only what is named.
ALONE = {
    "livecap.errors": set[str](),
    "livecap.events": set[str](),
    "livecap.languages": {"livecap.errors"},
    "livecap.config": {"livecap.errors"},
}
EDGE_ONLY = {"sounddevice", "aiortc", "starlette", "uvicorn", "websockets", "msgspec"}
HEAVY = {"torch", "transformers", "tokenizers", "av", "sounddevice", "starlette"}


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@cache
def sources() -> dict[str, tuple[Path, ast.Module]]:
    files = sorted([*(ROOT / "livecap").rglob("*.py"), *(ROOT / "towers").rglob("*.py")])
    return {name_of(file): (file, ast.parse(file.read_text("utf-8"))) for file in files}


def imports(name: str) -> Iterator[str]:
    """The modules that a module names anywhere in it, for types only too."""
    for node in ast.walk(sources()[name][1]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module, "no relative imports"
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (full if full in sources() else node.module for full in names)


def ours(name: str) -> set[str]:
    return {used for used in imports(name) if used.split(".")[0] in ("livecap", "towers")}


def place(name: str) -> str:
    """The entry of LAYERS that a module belongs to."""
    return max((known for known in LAYERS if (name + ".").startswith(known + ".")), key=len)


MODULES = sorted(sources())


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_downward(name: str) -> None:
    own = place(name)
    for used in ours(name):
        other = place(used)
        assert other == own or LAYERS[other] <= LAYERS[own], f"{name} imports {used}"


def test_no_two_places_import_each_other() -> None:
    pairs = {(place(name), place(used)) for name in MODULES for used in ours(name)}
    mutual = sorted({(a, b) for a, b in pairs if a < b and (b, a) in pairs})
    assert mutual == []


def test_towers_know_nothing_of_livecap() -> None:
    for name in MODULES:
        if place(name) == "towers":
            assert all(used.split(".")[0] == "towers" for used in ours(name)), name


def test_the_engine_knows_nothing_of_audio() -> None:
    allowed = {"livecap.engine", "livecap.errors", "livecap.config", "towers"}
    for name in MODULES:
        if place(name) == "livecap.engine":
            assert {place(used) for used in ours(name)} <= allowed, name


@pytest.mark.parametrize("name", ALONE)
def test_the_foundations_stand_alone(name: str) -> None:
    assert ours(name) <= ALONE[name]


@pytest.mark.parametrize("name", [name for name in MODULES if place(name) == "livecap.online"])
def test_the_online_core_is_pure(name: str) -> None:
    """No input or output, no threads, no event loop, no clock; and no tensors."""
    used = {module.split(".")[0] for module in imports(name)}
    allowed = {"livecap", "numpy", "collections", "dataclasses", "bisect", "math", "typing"}
    assert used <= {*allowed, "itertools"}


def test_only_the_edge_knows_microphones_and_servers() -> None:
    for name in MODULES:
        used = {module.split(".")[0] for module in imports(name)}
        if place(name) != "livecap.commands":
            assert not used & EDGE_ONLY, name
        if place(name) not in ("livecap.commands", "livecap.output", "livecap"):
            assert not used & {"rich", "cyclopts"}, name


def test_importing_the_package_loads_nothing_heavy() -> None:
    light = ["livecap", "livecap.config", "livecap.errors", "livecap.events", "livecap.checkpoints"]
    code = f"import sys, {', '.join(light)}; print(*({HEAVY!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", MODULES)
def test_files_are_short(name: str) -> None:
    assert len(sources()[name][0].read_text("utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("name", MODULES)
def test_no_error_is_swallowed(name: str) -> None:
    """No handler takes everything: an unexpected error is a bug and has to be seen."""
    for node in ast.walk(sources()[name][1]):
        if isinstance(node, ast.ExceptHandler):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            names = {kind.id for kind in kinds if isinstance(kind, ast.Name)}
            assert None not in kinds, f"line {node.lineno}: bare except"
            assert not names & {"Exception", "BaseException"}, f"line {node.lineno}"


@pytest.mark.parametrize("name", MODULES)
def test_no_module_has_state(name: str) -> None:
    """Module level holds constants: nothing that is filled, rebound or counted later."""
    module = sources()[name][1]
    assert not any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(module))
    constants = {
        target.id
        for node in module.body
        for target in _targets(node)
        if isinstance(target, ast.Name) and target.id != "__all__"
    }
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            changed = set(_changed(function)) & constants
            assert not changed, f"{function.name} changes {changed}"


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


GROWS = {"append", "add", "update", "setdefault", "extend", "insert", "pop", "clear", "remove"}


def _changed(function: ast.AST) -> Iterator[str]:
    """Names whose value a function changes in place: `name[...] = `, `name.append(...)`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            owner: ast.expr = node.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in GROWS
        ):
            owner = node.func.value
        else:
            continue
        if isinstance(owner, ast.Name):
            yield owner.id


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name: str) -> None:
    docstring = ast.get_docstring(sources()[name][1])
    assert docstring
    assert docstring.splitlines()[0].endswith((".", "!"))


def test_environment_is_read_at_the_edge_only() -> None:
    """The core has no switches in the environment."""
    core = ("livecap.engine", "livecap.models", "livecap.online", "livecap.vad", "towers")
    for name in MODULES:
        if place(name) in core:
            assert "os" not in imports(name), name
