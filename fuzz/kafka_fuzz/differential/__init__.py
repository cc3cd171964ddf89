"""The same inputs to several testees, and the comparison of their outcomes."""
