"""Log directories as a broker leaves them: their segment files, stretches of them, and tables of what is in them.

    listing   which segments there are, here and where Arrow's file systems reach
    files     their bytes
    indexes   the offset indexes beside them
    splits    stretches that begin and end between batches
    tables    records, batches and errors in types that every engine has

It needs the extra `columnar`, and nothing of Spark's.
"""
