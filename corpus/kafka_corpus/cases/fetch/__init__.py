"""Cases about fetch requests: what a broker serves; each module is an area."""
