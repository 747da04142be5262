"""How speech or files are to be captioned -> what does so: a model here, or a server."""

from collections.abc import Callable
from dataclasses import replace

from livecap.client.options import RemoteServer, ServerOptions, refuse_local, server_of
from livecap.client.request import Asked
from livecap.client.wire import Wanted, split_hotwords
from livecap.commands.arguments import model_of
from livecap.commands.captioner import Captioner, Setup
from livecap.commands.file_batch import BatchConfig, StartRun
from livecap.config import VadConfig
from livecap.runtime.runs import CaptionRun

# What captions; it is given where to say what takes its time. Raises LivecapError.
Begin = Callable[[Callable[[str], None]], Captioner]


def begin_of(options: ServerOptions, setup: Setup) -> Begin:
    """Raises ConfigError for options that clash. Nothing is loaded, and nobody is asked yet."""
    server = server_of(options)
    return _here(setup) if server is None else _there(server, wanted(setup))


def wanted(setup: Setup) -> Wanted:
    """What a server is told. Raises ConfigError for what it can't be."""
    usual, vad, run = Setup(), setup.vad or VadConfig(), setup.run
    assert usual.vad is not None
    refuse_local(
        {
            "--pull": setup.pull,
            "--task translate": setup.decode.task != usual.decode.task,
            "--policy": setup.live.policy != usual.live.policy,
            "--update": setup.live.update != usual.live.update,
            "--carry": setup.live.carry != usual.live.carry,
            "--no-vad": setup.vad is None,
            "--vad-min-speech": vad.vad_min_speech != usual.vad.vad_min_speech,
            "--vad-min-silence": vad.vad_min_silence != usual.vad.vad_min_silence,
            "--vad-tail": vad.vad_tail != usual.vad.vad_tail,
            "--compute": run.device != usual.run.device,
            "--precision": run.precision != usual.run.precision,
            "--threads": run.threads != usual.run.threads,
            "--attention-window": run.attention_window != usual.run.attention_window,
        }
    )
    decode = setup.decode
    return Wanted(
        model=None if setup.model == "auto" else setup.model,
        language=decode.language,
        prompt=decode.prompt,
        keywords=split_hotwords(decode.hotwords),
        threshold=vad.vad_threshold,
        padding=vad.vad_pad,
        pause=setup.live.pause or None,
    )


def start_of(options: ServerOptions, config: BatchConfig) -> StartRun:
    """The same for files."""
    server = server_of(options)
    return _files_here() if server is None else _files_there(server, _asked(config))


def _here(setup: Setup) -> Begin:
    def begin(say: Callable[[str], None]) -> Captioner:
        from livecap.commands.local_backend import load_local

        return load_local(model_of(setup.model), setup, say)

    return begin


def _there(server: RemoteServer, wanted: Wanted) -> Begin:
    def begin(say: Callable[[str], None]) -> Captioner:
        from livecap.client.stream import open_stream

        say(f"server: {server.name}; connecting")
        stream = open_stream(server, wanted, say)
        if stream.model:
            say(f"model: {stream.model}")
        return stream

    return begin


def _asked(config: BatchConfig) -> Asked:
    return Asked(config.model, config.pull, config.decode, config.vad, config.run, config.read)


def _files_here() -> StartRun:
    def start(
        config: BatchConfig,
        open_outputs: Callable[[str], None],
        say: Callable[[str], None],
        *,
        times: bool,
    ) -> CaptionRun:
        from livecap.commands.local_files import load_files

        return load_files(config, open_outputs, say, times=times)

    return start


def _files_there(server: RemoteServer, asked: Asked) -> StartRun:
    def start(
        config: BatchConfig,
        open_outputs: Callable[[str], None],
        say: Callable[[str], None],
        *,
        times: bool,
    ) -> CaptionRun:
        from livecap.client.files import RemoteRun

        wanted = replace(asked, decode=config.decode, needs_words=times)
        return RemoteRun(server, wanted, open_outputs, say)

    return start
