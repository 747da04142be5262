"""Where audio comes in: files, and in time microphones, sockets and browsers."""
