"""Reviewed causes of findings: one `<library>.toml` for each library, written by a person."""
