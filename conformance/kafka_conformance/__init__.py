"""Judges codecs: asks them the corpus's questions and says what was wrong with the answers.

It reads cases through `kafka_corpus.vectors` and never writes one.  Only
`kafka_fuzz` may import it.
"""
