"""Captions -> cues: lines of a width and times that people can read."""

from livecap.captions.layout import PRESETS, Layout, preset
from livecap.captions.shape import Cue, Shaper
from livecap.captions.voices import Unmet, Voices
from livecap.captions.width import columns

__all__ = ["PRESETS", "Cue", "Layout", "Shaper", "Unmet", "Voices", "columns", "preset"]
