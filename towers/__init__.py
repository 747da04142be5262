"""Audio encoders with explicit streaming state. Nothing here imports livecap."""
