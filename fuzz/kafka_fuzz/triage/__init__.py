"""Triage: findings are deduplicated, shrunk, compared with the last run, drafted as cases and reported."""
