"""The models: loaded once, when they are asked for, away from the loop; and their names."""

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from server_parts import FakeService, Loader, models_of

from livecap.api.sessions.model_pool import HOSTED, ModelPool, PooledModel, served_name
from livecap.checkpoints import Checkpoint
from livecap.errors import ConfigError, CorruptModel, EngineFault


def test_many_at_once_load_a_model_once() -> None:
    load = Loader(held={"small"})

    async def ask() -> list[PooledModel]:
        models = models_of("tiny.en", "small", load=load)
        asking = [asyncio.create_task(models.get("small")) for _ in range(20)]
        await asyncio.sleep(0)
        assert models.loaded("small") is None
        load.go.set()
        return [*await asyncio.gather(*asking), await models.get("small")]

    found = asyncio.run(ask())
    assert load.calls == ["small"]
    assert {id(one) for one in found} == {id(found[0])}
    assert found[0].name == "small"
    assert threading.get_ident() not in load.threads


def test_models_are_loaded_one_after_the_other() -> None:
    load = Loader(held={"a"})

    async def ask() -> None:
        models = models_of("a", "b", load=load)
        first, second = (asyncio.create_task(models.get(name)) for name in "ab")
        while load.calls != ["a"]:
            await asyncio.sleep(0)
        load.go.set()
        await asyncio.gather(first, second)
        assert models.is_ready

    asyncio.run(ask())
    assert load.calls == ["a", "b"]


def test_who_gives_up_does_not_take_it_away_from_others() -> None:
    load = Loader(held={"tiny.en"})

    async def ask() -> None:
        models = models_of(load=load)
        leaving, staying = (asyncio.create_task(models.get("tiny.en")) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        load.go.set()
        assert (await staying).name == "tiny.en"
        assert leaving.cancelled()

    asyncio.run(ask())
    assert load.calls == ["tiny.en"]


def test_a_failure_is_told_to_those_who_asked_and_tried_again_later() -> None:
    load = Loader(failing={"small"})

    async def ask() -> None:
        models = models_of("tiny.en", "small", load=load)
        asking = [models.get("small"), models.get("tiny.en"), models.get("small")]
        first, other, second = await asyncio.gather(*asking, return_exceptions=True)
        assert isinstance(first, CorruptModel)
        assert isinstance(second, CorruptModel)
        assert isinstance(other, PooledModel)
        assert models.loaded("small") is None
        load.failing.clear()
        assert (await models.get("small")).name == "small"

    asyncio.run(ask())
    assert load.calls == ["small", "tiny.en", "small"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_nobody_expected_is_told_too() -> None:
    def load(name: str) -> PooledModel:
        raise RuntimeError("no memory left")

    async def ask() -> None:
        models = ModelPool(("tiny.en",), load, {})
        with pytest.raises(EngineFault, match="could not be loaded"):
            await models.get("tiny.en")
        assert not models.is_ready

    asyncio.run(ask())
    for thread in threading.enumerate():
        if thread.name.startswith("livecap-load"):
            thread.join()  # it is to say what happened while this test is responsible for it


def test_a_server_that_ends_does_not_wait_for_a_model() -> None:
    load = Loader(held={"tiny.en"})

    async def ask() -> ModelPool:
        models = models_of(load=load)
        asking = asyncio.create_task(models.get("tiny.en"))
        await asyncio.sleep(0)
        asking.cancel()
        return models

    models = asyncio.run(ask())
    load.go.set()
    models.close()


def test_closing_ends_the_services_of_what_was_loaded() -> None:
    async def ask() -> tuple[ModelPool, PooledModel]:
        models = models_of("tiny.en", "small")
        return models, await models.get("small")

    models, served = asyncio.run(ask())
    models.close()
    service = served.service
    assert isinstance(service, FakeService)
    assert service.closed == 1


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (None, "small"),
        ("", "small"),
        ("small", "small"),
        ("SMALL", "small"),
        ("openai/whisper-small", "small"),
        ("tiny.en", "tiny.en"),
        ("openai/whisper-tiny.en", "tiny.en"),
        *((name, "small") for name in HOSTED if name != "whisper-1"),
        ("whisper-1", "tiny.en"),
        ("mine", "tiny.en"),
        ("gpt-realtime", "small"),
        ("gpt-realtime-2025-08-28", "small"),
        ("gpt-4o-mini-realtime-preview", "small"),
        ("gpt-../small", None),
        ("gpt-", None),
        ("medium", None),
        ("../small", None),
        ("/etc/passwd", None),
        ("whisper-2", None),
    ],
)
def test_names(asked: str | None, meant: str | None) -> None:
    aliases = {"whisper-1": "tiny.en", "mine": "openai/whisper-tiny.en"}
    assert models_of("small", "tiny.en", aliases=aliases).canonical(asked) == meant


def test_an_alias_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--alias mine=medium.*small, tiny\.en"):
        models_of("small", "tiny.en", aliases={"mine": "medium"})


def test_a_folder_is_called_by_its_last_part(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    named = Checkpoint(str(folder), folder, "huggingface", "whisper")
    assert served_name(named) == "my-model"
    known = Checkpoint("tiny.en", folder, "huggingface", "whisper")
    assert served_name(known) == "tiny.en"
    hub = Checkpoint("openai/whisper-tiny", folder, "huggingface", "whisper")
    assert served_name(hub) == "openai/whisper-tiny"


def test_a_model_that_has_broken_off_is_loaded_again() -> None:
    loader = Loader()

    async def run() -> None:
        models = ModelPool(("small",), loader, {})
        first = await models.get("small")
        assert models.is_ready
        cast(Any, first.service).failure = EngineFault("it broke off", remedy="Report it")
        assert not models.is_ready
        second = await models.get("small")
        assert second is not first
        assert models.loaded("small") is second

    asyncio.run(run())
