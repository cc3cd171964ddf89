"""The cases, grouped by what they are about; every module here is an area."""
