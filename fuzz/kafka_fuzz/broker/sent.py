"""How a payload is sent to a broker, as a list of known finds says it."""

from __future__ import annotations

import msgspec


class Sent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All that it takes to send a payload as it was.

    Attributes:
        api_version: of the request.
        settings: of the topic.
        before: payloads that the partition took first, as hex, with their versions.
    """

    api_version: int
    settings: dict[str, str] = {}
    before: tuple[tuple[str, int], ...] = ()
