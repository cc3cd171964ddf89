"""Log directories as a broker leaves them: their segment files, and stretches of them.

    listing   which segments there are, here and where Arrow's file systems reach
    files     their bytes, and stretches that begin and end between batches
    indexes   the offset indexes beside them

It needs the extra `columnar`, and nothing of Spark's.
"""
