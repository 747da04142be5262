"""What the server answers: realtime, transcriptions, WebRTC, viewers, and what they share."""
