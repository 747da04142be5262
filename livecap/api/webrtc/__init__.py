"""Live sessions over WebRTC: OpenAI's calls and WHIP. Only `peer` needs aiortc (extra `webrtc`)."""
