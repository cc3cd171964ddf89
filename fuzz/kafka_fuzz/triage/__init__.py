"""Triage: a campaign's finds folded, reduced, compared with those of last night, and drafted as cases."""
