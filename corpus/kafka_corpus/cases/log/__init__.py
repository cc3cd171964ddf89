"""Cases about logs at rest: cleaning, recovery and segments; each module is an area."""
