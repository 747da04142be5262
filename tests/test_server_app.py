"""The application: routes, the one envelope, ids, rules for pages, metrics, health and the log."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from server_parts import BASE, HERE, INVALID, PATIENCE, Loader, application, client, envelope
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from livecap.api.logs import JsonLogFormatter
from livecap.api.options import ServeConfig
from livecap.api.sessions.model_pool import PooledModel
from livecap.api.sessions.session_metrics import Observer
from livecap.errors import CorruptModel
from livecap.events import RATE, Stalled
from livecap.metrics import Metrics

ID = b"x-request-id"


@pytest.mark.parametrize(
    ("method", "path", "status", "told"),
    [
        ("GET", "/nothing", 404, (INVALID, "unknown_url", None)),
        ("GET", "/v1/nothing", 404, (INVALID, "unknown_url", None)),
        ("POST", "/v1/models", 405, (INVALID, "method_not_supported", None)),
        ("DELETE", "/v1/audio/transcriptions", 405, (INVALID, "method_not_supported", None)),
        ("BREW", "/v1/models", 405, (INVALID, "method_not_supported", None)),
        ("GET", "/v1/realtime", 405, (INVALID, "method_not_supported", None)),
        ("GET", "/v1/models/medium", 404, (INVALID, "model_not_found", "model")),
        ("GET", "/v1/models/../../etc/passwd", 404, (INVALID, "unknown_url", None)),
        ("GET", "/v1/models/..%2f..%2fetc", 404, (INVALID, "model_not_found", "model")),
        ("GET", "/v1/busy", 429, ("rate_limit_error", "rate_limit_exceeded", None)),
        ("GET", "/v1/misread", 400, (INVALID, "invalid_value", None)),
        ("GET", "/v1/corrupt", 500, ("server_error", "server_error", None)),
        ("GET", "/v1/fault", 500, ("server_error", "server_error", None)),
    ],
)
def test_every_error_is_one_envelope(
    method: str, path: str, status: int, told: tuple[str, str | None, str | None]
) -> None:
    with client(raises=False) as http:
        answer = http.request(method, path)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/json"
        assert envelope(answer.json()) == told
        assert answer.headers["x-request-id"].startswith("req_")
        assert "fault of ours" not in answer.text
        assert "somebody" not in answer.text
        counted = http.get("/metrics").text
    assert f'livecap_errors_total{{code="{told[1]}"}} 1.0' in counted
    if status == 405:
        assert answer.headers["allow"]


def test_models_are_listed_as_openai_does() -> None:
    with client() as http:
        listed = http.get("/v1/models").json()
        assert listed["object"] == "list"
        assert [model["id"] for model in listed["data"]] == ["tiny.en", "small"]
        for model in listed["data"]:
            assert model.keys() == {"id", "object", "created", "owned_by"}
            assert (model["object"], model["owned_by"]) == ("model", "livecap")
            assert isinstance(model["created"], int)
            assert http.get(f"/v1/models/{model['id']}").json() == model
        alias = http.get("/v1/models/whisper-1").json()
        assert alias["id"] == "whisper-1"
        assert http.get("/v1/models/openai/whisper-small").json()["id"] == "openai/whisper-small"


def test_further_names_are_listed_on_demand() -> None:
    with client(ServeConfig(list_aliases=True)) as http:
        names = [model["id"] for model in http.get("/v1/models").json()["data"]]
    assert names[:2] == ["tiny.en", "small"]
    assert "whisper-1" in names
    assert len(names) == len(set(names))


# -- health ---------------------------------------------------------------------------------------


def test_health_answers_while_the_model_is_loaded() -> None:
    load, started = Loader(held={"tiny.en"}), threading.Event()
    parts, app = application(load=load, started=lambda task: started.set())
    with TestClient(app, client=HERE, base_url=BASE) as http:
        loading = http.get("/health")
        assert (loading.status_code, loading.json()) == (
            200,
            {"status": "ok", "ready": False, "model": "tiny.en"},
        )
        refused = http.get("/health/ready")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert envelope(refused.json()) == ("server_error", "model_loading", None)
        assert [model["id"] for model in http.get("/v1/models").json()["data"]]
        assert not started.is_set()
        load.go.set()
        assert started.wait(PATIENCE)
        assert http.get("/health").json()["ready"]
        assert http.get("/health/ready").json() == {
            "status": "ready",
            "ready": True,
            "model": "tiny.en",
        }
        assert load.calls == ["tiny.en"], "the others are loaded when they are asked for"
        parts.drain.is_stopping = True
        stopping = http.get("/health/ready")
        assert (stopping.status_code, envelope(stopping.json())[1]) == (503, "server_stopping")
        assert http.get("/health").json() == {"status": "ok", "ready": False, "model": "tiny.en"}


def test_a_first_model_that_can_not_be_loaded_is_told() -> None:
    told: list[BaseException | None] = []
    done = threading.Event()

    def started(task: asyncio.Task[PooledModel]) -> None:
        told.append(task.exception())
        done.set()

    _, app = application(load=Loader(failing={"tiny.en"}), started=started)
    with TestClient(app, client=HERE, base_url=BASE) as http:
        assert done.wait(PATIENCE)
        assert isinstance(told[0], CorruptModel)
        assert http.get("/health/ready").status_code == 503


def test_services_are_closed_with_the_application() -> None:
    warm = threading.Event()
    parts, app = application(started=lambda task: warm.set())
    with TestClient(app, client=HERE, base_url=BASE):
        assert warm.wait(PATIENCE)
        loaded = parts.models.loaded("tiny.en")
    assert loaded
    assert loaded.service.closed == 1  # type: ignore[attr-defined]  # it is a fake


# -- keys -----------------------------------------------------------------------------------------


def test_keys_are_asked_for_everywhere_but_by_monitoring() -> None:
    with client(keys=("k",)) as http:
        for path in ("/health", "/health/ready", "/metrics", "/", "/view/x", "/web/view.js"):
            assert http.get(path).status_code == 200
        for path in (
            "/v1/models",
            "/v1/models/x",
            "/v1/nothing",
            "/v1/captions",
            "/healthy",
            "/docs",
        ):
            refused = http.get(path)
            assert refused.status_code == 401
            assert envelope(refused.json()) == (INVALID, "invalid_api_key", None)
            assert refused.headers["www-authenticate"] == "Bearer"
        assert http.get("/v1/models", headers={"Authorization": "Bearer k"}).status_code == 200
        assert http.get("/v1/models", headers={"x-api-key": "k"}).status_code == 200
        assert 'livecap_errors_total{code="invalid_api_key"} 6.0' in http.get("/metrics").text


def test_foreign_pages_are_refused_where_no_key_is_asked_for() -> None:
    with client() as http:
        evil = {"Origin": "https://evil.example"}
        refused = http.post("/v1/audio/transcriptions", headers=evil, content=b"x")
        assert (refused.status_code, envelope(refused.json())[1]) == (403, "origin_not_allowed")
        assert "access-control-allow-origin" not in refused.headers
        own = http.post(
            "/v1/audio/transcriptions", headers={"Origin": "http://localhost:5173"}, content=b"x"
        )
        assert own.content == b"x"


# -- rules of browsers ----------------------------------------------------------------------------


def preflight(http: TestClient, origin: str, method: str = "POST") -> Any:
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization,x-stainless-os,content-type",
        "Access-Control-Request-Private-Network": "true",
    }
    return http.options("/v1/audio/transcriptions", headers=asked)


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ((), "http://localhost:5173", "http://localhost:5173"),
        ((), "http://127.0.0.1:1", "http://127.0.0.1:1"),
        ((), "https://[::1]:8443", "https://[::1]:8443"),
        ((), "https://shop.example", None),
        ((), "http://localhost.evil.example", None),
        (("https://shop.example",), "https://shop.example", "https://shop.example"),
        (("https://shop.example",), "https://shop.example.evil", None),
        (("*",), "https://any.example", "*"),
    ],
)
def test_pages_that_may_ask(origins: tuple[str, ...], origin: str, allowed: str | None) -> None:
    with client(ServeConfig(cors_origin=origins), keys=("k",)) as http:
        answer = preflight(http, origin)
        assert answer.status_code == (200 if allowed else 400)
        assert answer.headers.get("access-control-allow-origin") == allowed
        read = http.get("/v1/models", headers={"Origin": origin, "Authorization": "Bearer k"})
        assert read.headers.get("access-control-allow-origin") == allowed
        if allowed:
            assert "x-stainless-os" in answer.headers["access-control-allow-headers"]
            assert answer.headers["access-control-allow-private-network"] == "true"
            exposed = read.headers["access-control-expose-headers"]
            for name in ("Location", "ETag", "Link", "x-request-id", "Retry-After"):
                assert name in exposed


def test_a_page_can_read_why_it_was_refused() -> None:
    with client(keys=("k",)) as http:
        refused = http.get("/v1/models", headers={"Origin": "http://localhost:3000"})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "http://localhost:3000"


# -- ids, metrics, log ----------------------------------------------------------------------------


def test_requests_have_ids() -> None:
    with client() as http:
        first, second = (http.get("/v1/models").headers["x-request-id"] for _ in range(2))
        assert first.startswith("req_")
        assert first != second
        given = http.get("/health", headers={"x-request-id": "from-proxy_1.2"})
        assert given.headers["x-request-id"] == "from-proxy_1.2"
        for bad in ("two words", "x" * 65, "ü", 'a"b', "a\tb"):
            answer = http.get("/health", headers={b"x-request-id": bad.encode()})
            assert answer.headers["x-request-id"].startswith("req_")
        with http.websocket_connect("/v1/realtime") as socket:
            assert socket.receive_json() == {"type": "hello"}
            headers: list[tuple[bytes, bytes]] = list(socket.extra_headers or ())
            assert [name for name, value in headers if value.startswith(b"req_")] == [ID]


def samples(text: str) -> dict[str, float]:
    """Prometheus' own reading of the page: a sample with its labels -> its value."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_metrics_are_read_by_prometheus() -> None:
    with client() as http:
        for _ in range(3):
            http.get("/v1/models")
        http.get("/v1/models/small")
        http.get("/v1/models/large")
        http.get("/private/of/a/client")
        http.request("BREW", "/v1/models")
        with http.websocket_connect("/v1/realtime"):
            pass
        page = http.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(page.text)
    counted = "livecap_http_requests_total"
    assert found[f"{counted}{{method=GET,route=/v1/models,status=200}}"] == 3
    assert found[f"{counted}{{method=GET,route=/v1/models/{{id:path}},status=200}}"] == 1
    assert found[f"{counted}{{method=GET,route=/v1/models/{{id:path}},status=404}}"] == 1
    assert found[f"{counted}{{method=GET,route=unmatched,status=404}}"] == 1
    assert found[f"{counted}{{method=other,route=/v1/models,status=405}}"] == 1
    took = "livecap_http_request_duration_seconds_count{method=GET,route=/v1/models}"
    assert found[took] == 3
    assert "private" not in page.text
    assert "BREW" not in page.text
    assert not any("realtime" in name for name in found), "sockets are no requests"


NAMES = {
    "livecap_sessions_active": "gauge",
    "livecap_sessions": "counter",
    "livecap_session_duration_seconds": "histogram",
    "livecap_audio_seconds": "counter",
    "livecap_items": "counter",
    "livecap_first_text_seconds": "histogram",
    "livecap_final_latency_seconds": "histogram",
    "livecap_partial_lag_seconds": "histogram",
    "livecap_rtf": "histogram",
    "livecap_queue_depth": "gauge",
    "livecap_errors": "counter",
    "livecap_push_lines": "counter",
    "livecap_history_waiting": "gauge",
    "livecap_history_failures": "counter",
    "livecap_history_lost": "counter",
    "livecap_http_requests": "counter",
    "livecap_http_request_duration_seconds": "histogram",
    "livecap_stalls": "counter",
}


def test_metrics_have_the_names_that_were_promised() -> None:
    with client() as http:
        text = http.get("/metrics").text
    families = {family.name: family.type for family in text_string_to_metric_families(text)}
    ours = {
        name: kind
        for name, kind in families.items()
        if name.startswith("livecap_") and not name.endswith("_created")
    }
    assert ours == NAMES
    assert "process_resident_memory_bytes" in families
    for name, kind in NAMES.items():
        suffix = "_total" if kind == "counter" else ""
        assert f"# TYPE {name}{suffix} {kind}" in text


def test_sessions_are_counted_with_the_dialect_they_turned_out_to_speak() -> None:
    parts, _ = application()
    seconds = iter((10.0, 12.5))
    metrics = parts.metrics

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    with metrics.session("websocket", lambda: next(seconds)) as told:
        assert value("livecap_sessions_active", transport="websocket") == 1
        told.dialect = "vllm"
    assert value("livecap_sessions_active", transport="websocket") == 0
    assert value("livecap_sessions_total", transport="websocket", dialect="vllm") == 1
    assert value("livecap_session_duration_seconds_sum") == 2.5


def test_two_servers_in_one_process_count_apart() -> None:
    first, second = application()[0].metrics, application()[0].metrics
    assert isinstance(first, Metrics)
    first.items.labels("completed").inc()
    assert first.registry.get_sample_value("livecap_items_total", {"result": "completed"}) == 1
    assert second.registry.get_sample_value("livecap_items_total", {"result": "completed"}) is None


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """The log, as it would be written."""
    caplog.set_level(logging.INFO, "livecap")

    def read() -> list[dict[str, Any]]:
        shaped = [JsonLogFormatter().format(record) for record in caplog.records]
        assert all("\n" not in line for line in shaped)
        found = [json.loads(line) for line in shaped]
        return [line for line in found if line["logger"].startswith("livecap")]

    return read


def test_speech_that_makes_no_text_is_counted_and_logged(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    metrics = Metrics(CollectorRegistry())
    observer = Observer(metrics, lambda: 0.0)
    observer.stalled(Stalled(RATE, 25 * RATE, 21 * RATE), "tiny.en")
    assert metrics.registry.get_sample_value("livecap_stalls_total", {"model": "tiny.en"}) == 1
    [line] = lines()
    assert (line["level"], line["model"], line["at"], line["voiced"]) == (
        "warning", "tiny.en", 1.0, 21.0,
    )  # fmt: skip


def test_the_log_has_a_line_for_each_request(lines: Callable[[], list[dict[str, Any]]]) -> None:
    with client(keys=("sk-private",)) as http:
        headers = {"Authorization": "Bearer sk-private", "x-request-id": "abc"}
        http.post(
            "/v1/audio/transcriptions?prompt=private", headers=headers, content=b"private words"
        )
        http.get("/private-path", headers=headers)
        with http.websocket_connect("/v1/realtime?key=private", headers=headers) as socket:
            socket.receive_json()
            with pytest.raises(WebSocketDisconnect):
                socket.receive_json()
        with http.websocket_connect("/v1/realtime?wait=private", headers=headers) as socket:
            socket.receive_json()
            socket.close(4321)
    told = lines()
    assert "private" not in json.dumps(told)
    posted, lost, ended, left = told
    assert posted.pop("seconds") >= 0
    assert posted.pop("time").endswith("+00:00")
    assert posted == {
        "level": "info",
        "logger": "livecap.access",
        "event": "request",
        "method": "POST",
        "route": "/v1/audio/transcriptions",
        "status": 200,
        "sent": 13,
        "id": "abc",
        "client": "127.0.0.1",
    }
    assert (lost["route"], lost["status"]) == ("unmatched", 404)
    for line in (ended, left):
        assert (line["event"], line["route"]) == ("socket", "/v1/realtime")
    assert (ended["code"], left["code"]) == (1000, 4321)


def test_a_fault_is_in_the_log_and_not_in_the_answer(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    with client(raises=False) as http:
        http.get("/v1/fault")
        http.get("/v1/corrupt")
    requests = [line for line in lines() if line["event"] == "request"]
    assert [line["status"] for line in requests] == [500, 500]
    (failed,) = [line for line in lines() if line["event"] == "a request failed"]
    assert (failed["level"], failed["code"]) == ("error", "corrupt_model")
    assert "/home/somebody/model is damaged" in failed["exception"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("192.168.1.5", 200),
        ("evil.example:8000", 403),
        ("localhost.evil.example", 403),
        ("]", 403),
    ],
)
def test_a_stranger_s_name_for_this_machine_is_refused(host: str, status: int) -> None:
    """A page reached by it would be of the same origin, and its requests without `Origin`."""
    with client() as http:
        for path in ("/v1/models", "/v1/captions"):
            assert http.get(path, headers={"Host": host}).status_code == status
    with client(keys=("k",)) as http:  # a page of a stranger's has no key
        told = http.get("/v1/models", headers={"Host": host, "Authorization": "Bearer k"})
        assert told.status_code == 200


def test_answers_that_are_no_pages_are_taken_for_nothing_else() -> None:
    with client() as web:
        for path in ("/v1/models", "/v1/nowhere", "/v1/busy"):
            headers = web.get(path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-resource-policy"] == "same-origin"
        refused = web.get("/v1/models", headers={"Sec-Fetch-Site": "cross-site"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "origin_not_allowed")


def test_slashes_too_many_mean_nothing() -> None:
    with client() as web:
        for path in (
            "/v1/audio/transcriptions/",
            "//v1//audio/transcriptions",
            "/v1/audio//transcriptions//",
        ):
            answer = web.post(f"{BASE}{path}", content=b"the body", follow_redirects=False)
            assert (answer.status_code, answer.content) == (200, b"the body")
        for path in ("/v1/models/", "/v1//models"):
            assert web.get(path, follow_redirects=False).json()["object"] == "list"
        assert web.get("/v1/models/tiny.en/").json()["id"] == "tiny.en"
        assert web.get("/web/main.js").status_code == 200
        assert web.get(f"{BASE}//", follow_redirects=False).status_code == 200


def test_slashes_do_not_get_around_the_door() -> None:
    with client(keys=("k",)) as web:
        for path in ("//v1/models", "/v1/models/", "/v1//captions"):
            assert web.get(f"{BASE}{path}").status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("POST", "/audio/transcriptions", "/v1/audio/transcriptions"),
        ("POST", "/v1/v1/audio/transcriptions", "/v1/audio/transcriptions"),
        ("POST", "/api/v1/audio/transcriptions", "/v1/audio/transcriptions"),
        ("GET", "/models", "/v1/models"),
        ("GET", "/v1/v1/models", "/v1/models"),
        ("GET", "/v1/health", "/health"),
        ("GET", "/v1/chat/completions", None),
        ("GET", "/x", None),
    ],
)
def test_a_wrong_path_is_told_the_right_one(method: str, path: str, meant: str | None) -> None:
    with client() as web:
        answer = web.request(method, path)
        assert answer.status_code == 404
        message = answer.json()["error"]["message"]
        assert f"({method} {path})" in message
        assert f"Did you mean {meant}?" in message if meant else "mean" not in message


@pytest.mark.parametrize("path", ["/realtime", "/v1/v1/realtime", "/v1/models", "/"])
def test_a_socket_to_a_wrong_path_is_told_so(path: str) -> None:
    with (
        client() as web,
        pytest.raises(WebSocketDenialResponse) as refused,
        web.websocket_connect(path),
    ):
        pass
    answer = refused.value
    assert answer.status_code == 404
    message = answer.json()["error"]["message"]
    assert ("Did you mean /v1/realtime?" in message) == path.endswith("realtime")


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_metrics_can_be_closed(keys: tuple[str, ...]) -> None:
    """By a key that opens nothing else; the server's own does not open them."""
    with client(ServeConfig(metrics_key="m" * 20), keys=keys) as web:
        assert web.get("/metrics").status_code == 401
        for key, status in (("m" * 20, 200), ("k", 401), ("m" * 19, 401)):
            head = {"Authorization": f"Bearer {key}"}
            assert web.get("/metrics", headers=head).status_code == status
            assert web.get("/metrics/", headers=head).status_code == status
        assert web.get("/health").status_code == 200
        if keys:
            head = {"Authorization": "Bearer " + "m" * 20}
            assert web.get("/v1/models", headers=head).status_code == 401
