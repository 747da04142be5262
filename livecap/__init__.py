"""livecap: audio in, captions out; committed words are never taken back."""

__version__ = "0.1.0"
