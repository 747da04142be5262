"""Captions -> cues: lines of a width and times that people can read."""

from livecap.cues.layout import PRESETS, Layout, preset
from livecap.cues.shape import Cue, Shaper
from livecap.cues.voices import Unmet, Voices
from livecap.cues.width import columns

__all__ = ["PRESETS", "Cue", "Layout", "Shaper", "Unmet", "Voices", "columns", "preset"]
