"""Adapters of codecs that are written in, or for, Python; each a module of its own."""
