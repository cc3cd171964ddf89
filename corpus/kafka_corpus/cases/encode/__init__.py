"""Cases about encoding; each module is an area."""
