"""Cases about fetch requests and the bytes that a broker serves; each module is an area."""
