"""The commands: what was typed -> work done, and an exit status."""
