"""Strings of Java's: what header keys become on the way through one."""

from __future__ import annotations

import re

# A surrogate, cut short or not: Java puts one replacement for it, Python one for each byte.
SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
REPLACEMENT = "\ufffd".encode()


def java_utf8(data: bytes) -> bytes:
    r"""*data* decoded as UTF-8 and encoded again, each malformed part replaced (REC-21, REC-22).

    >>> java_utf8(b"a\xff"), java_utf8(b"\xed\xa0\x80")
    (b'a\xef\xbf\xbd', b'\xef\xbf\xbd')
    """
    return SURROGATE.sub(REPLACEMENT, data).decode(errors="replace").encode()
