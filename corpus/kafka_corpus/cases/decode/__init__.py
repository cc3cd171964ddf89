"""Cases about decoding; each module is an area."""
