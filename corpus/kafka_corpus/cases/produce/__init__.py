"""Cases about produce requests: what a broker accepts, rejects and stores; each module is an area."""
