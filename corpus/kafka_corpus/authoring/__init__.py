"""Building blocks for cases: bytes put together by hand, with one field changed."""
