"""The rules of the design that can be read off the source: who imports whom, sizes, and state."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST_LINES = 320

# Imports point down this list: folders of `livecap/`, and of `livecap/api/`. Files that lie in
# `livecap/` itself are small and know nothing but each other, or are the command line.
ORDER: tuple[tuple[str, ...], ...] = (
    ("towers", "livecap.text", "livecap.events", "livecap.errors", "livecap.log"),
    ("livecap.languages", "livecap.metrics", "livecap.config"),
    ("livecap.tokens", "livecap.qwen_tokens"),
    ("livecap.audio", "livecap.vad", "livecap.checkpoints"),
    ("livecap.online",),
    ("livecap.engine",),
    ("livecap.models",),
    ("livecap.runtime",),
    ("livecap.captions",),
    ("livecap.output",),
    ("livecap.api",),
    ("livecap.client", "livecap.api.realtime", "livecap.api.access", "livecap.api.transcriptions"),
    ("livecap.api.viewers",),
    ("livecap.api.sessions",),
    ("livecap.api.webrtc",),
    ("livecap.api.server",),
    ("livecap.commands",),
    ("livecap.cli", "livecap.cli_live", "livecap.cli_serve", "livecap.__main__", "towers.train"),
)
LEVELS = {folder: level for level, folders in enumerate(ORDER) for folder in folders}
# These know nothing of the rest of us, or only what is named.
ALONE = {
    "livecap.errors": set[str](),
    "livecap.events": set[str](),
    "livecap.log": set[str](),
    "livecap.languages": {"livecap.errors"},
    "livecap.config": {"livecap.errors"},
}
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
    used = {used for used in imports(name) if used.split(".")[0] in ("livecap", "towers")}
    return used - {"livecap"}  # its version


def folder_of(name: str) -> str:
    """The entry of ORDER that a module belongs to; the package itself is empty."""
    return max((known for known in LEVELS if (name + ".").startswith(known + ".")), key=len)


MODULES = sorted(name for name in sources() if name != "livecap")


def test_the_package_itself_is_empty() -> None:
    assert ours("livecap") == set()


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_downward(name: str) -> None:
    own = folder_of(name)
    for used in ours(name):
        other = folder_of(used)
        assert other == own or LEVELS[other] <= LEVELS[own], f"{name} imports {used}"


def test_there_is_no_circle() -> None:
    """Of folders or of modules, however long."""
    modules = {name: ours(name) for name in MODULES}
    folders: dict[str, set[str]] = {folder: set() for folder in LEVELS}
    for name, used in modules.items():
        folders[folder_of(name)] |= {folder_of(one) for one in used} - {folder_of(name)}
    for graph in (folders, modules):
        TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_towers_know_nothing_of_livecap() -> None:
    for name in MODULES:
        if folder_of(name) == "towers":
            assert all(used.split(".")[0] == "towers" for used in ours(name)), name


def test_the_engine_knows_nothing_of_audio() -> None:
    allowed = {"livecap.engine", "livecap.errors", "livecap.config", "towers"}
    for name in MODULES:
        if folder_of(name) == "livecap.engine":
            assert {folder_of(used) for used in ours(name)} <= allowed, name


@pytest.mark.parametrize("name", ALONE)
def test_the_foundations_stand_alone(name: str) -> None:
    assert ours(name) <= ALONE[name]


@pytest.mark.parametrize("name", [name for name in MODULES if folder_of(name) == "livecap.online"])
def test_the_online_core_is_pure(name: str) -> None:
    """No input or output, no threads, no event loop, no clock; and no tensors."""
    used = {module.split(".")[0] for module in imports(name)}
    allowed = {"livecap", "numpy", "collections", "dataclasses", "bisect", "math", "typing"}
    assert used <= {*allowed, "itertools"}


EDGE = {  # who may import what talks to the outside
    "sounddevice": ("livecap.audio",),
    "websockets": ("livecap.client", "livecap.output", "livecap.api"),
    "rich": ("livecap.output", "livecap.commands", "livecap.cli"),
    "cyclopts": ("livecap.cli", "livecap.cli_live", "livecap.cli_serve"),
    **dict.fromkeys(("aiortc", "starlette", "uvicorn", "msgspec"), ("livecap.api",)),
}


@pytest.mark.parametrize("package", EDGE)
def test_only_the_edge_knows_microphones_servers_and_screens(package: str) -> None:
    for name in MODULES:
        used = {module.split(".")[0] for module in imports(name)}
        if not folder_of(name).startswith(EDGE[package]):
            assert package not in used, name


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
        if folder_of(name) in core:
            assert "os" not in imports(name), name


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for name, (_, module) in sources().items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
