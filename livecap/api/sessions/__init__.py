"""Live sessions, whatever transport brings their audio: admission, running, queues."""
