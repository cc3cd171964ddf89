"""A testee's processes: how they start, under which limits they run, and how they end.

`sandbox` talks to what is here.  Nothing is imported at this level: `preloaded` and `spawn_server`
are commands of their own, and start many times in a run.
"""
