"""The commands for live speech: `mic`, `bench`, `devices`. Heavy imports wait until needed."""

from typing import Annotated

from cyclopts import Parameter

from livecap.client.options import ServerOptions
from livecap.commands.arguments import check_formats, language_of, model_of
from livecap.config import (
    DecodeConfig,
    LiveOptions,
    ModelConfig,
    OutputConfig,
    Precision,
    Task,
    VadConfig,
)
from livecap.output.push.options import PushOptions

Flat = Parameter(name="*")


def mic(  # noqa: PLR0913 - its flags
    *,
    device: str | None = None,
    loopback: bool = False,
    source: Annotated[str | None, Parameter(name="--from", allow_leading_hyphen=True)] = None,
    speed: float = 1.0,
    raw: str | None = None,
    model: str = "auto",
    pull: bool = False,
    language: str | None = None,
    task: Task = "transcribe",
    prompt: str = "",
    hotwords: str = "",
    live: Annotated[LiveOptions, Flat] = LiveOptions(),  # noqa: B008 - frozen
    output: Annotated[OutputConfig, Flat] = OutputConfig(),  # noqa: B008 - frozen
    no_partials: bool = False,
    no_vad: bool = False,
    vad: Annotated[VadConfig, Flat] = VadConfig(),  # noqa: B008 - frozen
    compute: str = "auto",
    precision: Precision = "auto",
    threads: int = 0,
    attention_window: int = 0,
    server: Annotated[ServerOptions, Flat] = ServerOptions(),  # noqa: B008 - frozen
    push: Annotated[PushOptions, Flat] = PushOptions(),  # noqa: B008 - frozen
) -> int:
    """Caption what is said now.

    Parameters
    ----------
    device
        The microphone: its number or a part of its name, as `livecap devices` shows them.
    loopback
        Caption what this computer plays instead.
    source
        Caption a recording as if it were being said now; - is standard input.
    speed
        Of a recording: times real time; 0: as fast as it can be captioned.
    raw
        What headerless PCM is, as in s16le:16000:1 (coding, rate, channels).
    model
        A name that `livecap models` lists, a hub id or a folder; auto: the best on this machine.
    pull
        Fetch the model first if it is not on this machine.
    language
        Code or English name; without it, or with auto, it is detected.
    task
        translate: write English whatever is spoken.
    prompt
        Text that the speech seems to go on from; sets names, spelling and style. Where it is too
        long, its end counts.
    hotwords
        Names and terms to expect, with commas between. Where they are too many, the first count; a
        long prompt leaves them half of the room.
    no_partials
        Show only what won't change any more.
    no_vad
        Hear everything, instead of only what voice activity detection calls speech.
    compute
        Where the model runs: auto, cpu, cuda or cuda:N.
    precision
        See `livecap file --help`.
    threads
        Of the CPU; 0: one a core.
    attention_window
        Seconds of audio that see each other in Qwen3-ASR's encoder: 2, 4 or 8; 0: as trained.
    """
    from livecap.commands.backend import Setup, begin_of
    from livecap.commands.mic import MicConfig, run_mic
    from livecap.commands.sources import source_of

    opener = source_of(source, device=device, loopback=loopback, speed=speed, raw=raw)
    decode = DecodeConfig(
        language=language_of(language), task=task, prompt=prompt, hotwords=hotwords
    )
    run = ModelConfig(
        device=compute, precision=precision, threads=threads, attention_window=attention_window
    )
    hurries = source in (None, "-") or speed > 0
    setup = Setup(model, pull, decode, None if no_vad else vad, live, run, hurries)
    config = MicConfig(
        language=decode.language,
        task=task,
        output=check_formats(output),
        partials=not no_partials,
        can_wait=source is not None,
        push=push,
    )
    return run_mic(opener, begin_of(server, setup), config)


def bench(  # noqa: PLR0913 - its flags
    recording: Annotated[str, Parameter(allow_leading_hyphen=True)],
    *,
    realtime: bool = False,
    sessions: int = 1,
    reference: str | None = None,
    json: bool = False,
    model: str = "auto",
    pull: bool = False,
    language: str | None = None,
    live: Annotated[LiveOptions, Flat] = LiveOptions(),  # noqa: B008 - frozen
    vad: Annotated[VadConfig, Flat] = VadConfig(),  # noqa: B008 - frozen
    run: Annotated[ModelConfig, Flat] = ModelConfig(),  # noqa: B008 - frozen
) -> int:
    """Measure live captions of a recording: how late, how right, how costly.

    Parameters
    ----------
    recording
        What is played.
    realtime
        Play it at its own pace. Else time stands still while nothing is computed, and flies.
    sessions
        So many streams at once (with --realtime).
    reference
        A file with the text that is said.
    json
        One JSON object instead of tables.
    model
        A name that `livecap models` lists, a hub id or a folder; auto: the best on this machine.
    pull
        Fetch the model first if it is not on this machine.
    language
        Code or English name; without it, or with auto, it is detected.
    """
    from livecap.commands.bench import BenchConfig, run_bench

    config = BenchConfig(
        model=model_of(model),
        pull=pull,
        realtime=realtime,
        sessions=sessions,
        reference=reference,
        json=json,
        decode=DecodeConfig(language=language_of(language)),
        vad=vad,
        live=live,
        run=run,
    )
    return run_bench(recording, config)


def devices(*, list: bool = False, json_lines: bool = False) -> int:
    """List the microphones, with their levels on a terminal until Ctrl-C.

    Parameters
    ----------
    list
        Only list them.
    json_lines
        One JSON object a device.
    """
    from livecap.audio.devices import run_devices

    return run_devices(plain=list, json_lines=json_lines)
