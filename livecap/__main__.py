"""`python -m livecap` is `livecap`."""

from livecap.cli import main

main()
