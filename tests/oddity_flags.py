"""The table of flags: what each does to one clip of speech, or how it is refused."""

from dataclasses import dataclass

from oddities import FOX, Fails, Has, Result, Says

# Every command has a speaking talk.wav, a film.mkv with two tracks, and an empty folder to itself.
WRONG = Fails("bad_option", 2)  # refused by us, before anything is read
SPELT = Fails("usage", 2)  # refused by the parser
SPOKEN = Says(FOX)
NEARLY = Has("fox")


@dataclass(frozen=True)
class Flags:
    """One command line after `livecap file`."""

    words: str
    result: Result
    outputs: str = "talk.srt"  # what it writes, in order of name
    stdin: bool = False  # whether the speech comes through it too


FLAGS: dict[str, Flags] = {
    case.words: case
    for case in (
        # what works, however odd
        Flags("talk.wav --language en", SPOKEN),
        Flags("talk.wav --language English", SPOKEN),
        Flags("talk.wav --language EN-us", SPOKEN),
        Flags("talk.wav --temperature 0", SPOKEN),
        Flags("talk.wav --temperature 0.2", NEARLY),
        Flags("talk.wav --no-vad", SPOKEN),
        Flags("talk.wav --no-timestamps", SPOKEN),
        Flags("talk.wav --long-form sequential", SPOKEN),
        Flags("talk.wav --long-form sequential --no-vad", SPOKEN),
        Flags("talk.wav --batch-size 1", SPOKEN),
        Flags("talk.wav --precision fp32", SPOKEN),
        Flags("talk.wav --device cpu", SPOKEN),
        Flags("talk.wav --hotwords Fox,Dog", SPOKEN),
        Flags("talk.wav --prompt", NEARLY),
        Flags("talk.wav --vad-pad 0", NEARLY),
        Flags("talk.wav --vad-min-speech 10000", Says("")),
        Flags("talk.wav --vad-min-silence 10000", SPOKEN),
        Flags("talk.wav --max-line-width 8 --max-lines 1", SPOKEN),
        Flags("talk.wav --preset live608", SPOKEN),
        Flags("talk.wav --channels split", NEARLY),
        Flags("talk.wav --track 0", SPOKEN),
        Flags("talk.wav talk.wav ./talk.wav", SPOKEN),
        Flags("talk.wav --quiet", SPOKEN),
        Flags("talk.wav -f srt,srt", SPOKEN),
        Flags("talk.wav -f srt,vtt,json,jsonl,tsv,txt -o out/", SPOKEN, "out"),
        Flags("talk.wav -o name.vtt", SPOKEN, "name.vtt"),
        Flags("talk.wav -o {stem}.{lang}.{ext}", SPOKEN, "talk.en.srt"),
        Flags("talk.wav -o -", SPOKEN, ""),
        Flags("talk.wav -f json -o -", SPOKEN, ""),
        Flags("talk.wav --json-lines", SPOKEN, ""),
        Flags("-", SPOKEN, "", stdin=True),
        Flags("- -", SPOKEN, "", stdin=True),
        Flags("- --raw s16le:16000:1", SPOKEN, "", stdin=True),
        Flags("- -o out/", SPOKEN, "out", stdin=True),
        Flags("t*.wav", SPOKEN),
        Flags("talk.wav/", SPOKEN),
        # what is refused
        Flags("", WRONG),
        Flags("talk.wav --language xx", WRONG),
        Flags("talk.wav --language de", WRONG),
        Flags("talk.wav --task translate", WRONG),
        Flags("talk.wav --task sing", SPELT),
        Flags("talk.wav -f pdf", WRONG),
        Flags("talk.wav -f srt,", WRONG),
        Flags("talk.wav --preset hollywood", WRONG),
        Flags("talk.wav --track 7", Fails("no_audio_track")),
        Flags("talk.wav --track fr", Fails("no_audio_track")),
        Flags("film.mkv --track -1", Fails("no_audio_track")),
        Flags("talk.wav --raw mp3", WRONG),
        Flags("talk.wav --raw s16le:0:1", WRONG),
        Flags("talk.wav --raw s16le:16000:0", WRONG),
        Flags("talk.wav --raw s16le:16000:1:1", WRONG),
        Flags("talk.wav --device tpu", WRONG),
        Flags("talk.wav --device cuda:99", WRONG),
        Flags("talk.wav --precision fp4", SPELT),
        Flags("talk.wav --precision int4", WRONG),
        Flags("talk.wav --temperature -1", WRONG),
        Flags("talk.wav --temperature 2.1", WRONG),
        Flags("talk.wav --temperature nan", WRONG),
        Flags("talk.wav --temperature hot", SPELT),
        Flags("talk.wav --max-line-width 0", WRONG),
        Flags("talk.wav --max-line-width -5", WRONG),
        Flags("talk.wav --max-lines 0", WRONG),
        Flags("talk.wav --max-lines many", SPELT),
        Flags("talk.wav --vad-threshold 0", WRONG),
        Flags("talk.wav --vad-threshold 1", WRONG),
        Flags("talk.wav --vad-threshold nan", WRONG),
        Flags("talk.wav --vad-pad -1", WRONG),
        Flags("talk.wav --vad-min-silence 99999", WRONG),
        Flags("talk.wav --threads -1", WRONG),
        Flags("talk.wav --threads 99999", WRONG),
        Flags("talk.wav --batch-size -1", WRONG),
        Flags("talk.wav --batch-size 1000", WRONG),
        Flags("talk.wav --long-form both", SPELT),
        Flags("talk.wav --channels left", SPELT),
        Flags("talk.wav --model no-such-model", Fails("model_not_found")),
        Flags("talk.wav --model ./empty", Fails("model_not_found")),
        Flags("talk.wav --model talk.wav", Fails("model_not_found")),
        Flags("talk.wav film.mkv -o one.srt", WRONG),
        Flags("talk.wav film.mkv -f srt -o -", WRONG),
        Flags("talk.wav -f srt,vtt -o -", WRONG),
        Flags("talk.wav -f srt,vtt -o {stem}", WRONG),
        Flags("talk.wav -o {title}.srt", WRONG),
        Flags("talk.wav -o {stem", WRONG),
        Flags("talk.wav -f srt -o talk.vtt", WRONG),
        Flags("talk.wav -f txt -o talk.wav", WRONG),
        Flags("talk.wav -o talk.wav/x.srt", Fails("bad_output")),
        Flags("talk.wav --json-lines -f srt", WRONG),
        Flags("- talk.wav", WRONG),
        Flags("--nope talk.wav", WRONG),
        Flags("talk.wav --nope", WRONG),
        Flags("talk.wav --output", SPELT),
        Flags("none.wav", Fails("bad_audio")),
        Flags("empty", Fails("bad_audio")),
        Flags("*.flac", Fails("bad_audio")),
    )
}
