"""Final lines -> other programs and services, while they are said.

One file a receiver (`webhook.py`, `obs.py`, `youtube.py`, `zoom.py`); `delivery.py` sends to one of
them in order, again where that helps, and never keeps anybody waiting.
"""
