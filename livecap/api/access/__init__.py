"""Who may come in: keys, origins, and how many connections at once."""
