"""Voice activity: `silero.py` judges frames, `endpointer.py` finds endpoints in what it says."""
