"""Contents of the golden vectors of Kafka's own writer (kafka-clients 3.9.0, JDK 17)."""

from __future__ import annotations

from base64 import b64decode
from typing import Final

from kafka_corpus.authoring.build import TIMESTAMP
from kafka_records import Header, Record

# The same two records in every codec: one with a key and a value, one with neither but with headers.
GOLDEN_RECORDS: Final = (
    Record(0, TIMESTAMP, b"key", b"value"),
    Record(1, TIMESTAMP + 5, None, None, (Header(b"h", None), Header(b"", b""))),
)

# `payload_of(some_records(40))` as real libraries compress it.  Kept as bytes, since their output
# differs from release to release.
# zlib 1.2.13, level 9: one block in a dynamic Huffman code.
DEFLATE: Final = b64decode(
    "Nc9fpwJRFIbxLUmSMZIkycjISDKz1vxNkiRJ+g5ddHXO7Tmcb3/W2mu/t7+r50mdc6Ovz1+SR7/v759PkrvU9XqeikCFUL/viQKR"
    "0GDgiQOx0HDoqQxUCo1GnqpAldB47KkOVAtFkacmUCMUx57aQK3QZOKpC9S5zE2nY5+ax6E1F5zNDAtgITifGxKQBBcLQway4HJp"
    "WAJLwdXKsAJWgkliWANrwfXasAE2gmlq2AJbwc3GsAPqUZZ5JByRHm23hjgiPdrtDHFEerTfG+KI9CjPDXFEekRkiCPSo7I0xBHp"
    "UV0b4oj0qG0NcUR6dDgY4oj06Hj0yDhiPTqdDHHEenQ+G+KI9ehyMcQR69H1aogj1qPbzRBHrEf3uyGOWI8eD0McsR49n4Y4Yj16"
    "vQxxxJ37Bw=="
)
# snappy 1.2: literals, and copies of one and two offset bytes.
SNAPPY: Final = b64decode(
    "tAZYJAAAAAprZXkgMA52YWx1ZSAwACQAAgIFEwAxDRMUMQAkAAQEBRMAMg0TFDIAJAAGBgUTADMNExQzACQACAgFEwA0DRMUNAAk"
    "AAoKBRMANQ0TFDUAJAAMDAUTADYNExQ2ACQADg4FEwA3DRMUNwAkABAQBRMAOA0TFDgAJAASEgUTADkNExg5ACgAFBQMAb4IMTAQ"
    "Cb8YMTAAKAAWFgkVADERFRQxACgAGBgJFQAyERUUMgAoABoaCRUAMxEVFDMAKAAcHAkVADQRFRQ0ACgAHh4JFQA1ERUUNQAoACAg"
    "CRUANhEVFDYAKAAiIgkVADcRFRQ3ACgAJCQJFQA4ERUUOAAoACYmCRUAOREVAdIEKCgFFQAyEdIAMgHSBCoqCRUR0gAyAdIELCwJ"
    "FRHSADIB0gQuLgkVEdIAMgHSBDAwCRUR0gAyAdIEMjIJFRHSADIB0gQ0NAkVEdIAMgHSBDY2CRUR0gAyAdIEODgJFRHSADIB0gQ6"
    "OgkVEdIAMgHSBDw8BRUAMxHSADMB0gQ+PgkVEdIAMwHSBEBACRUR0gAzAdIEQkIJFRHSGDMzACgAREQJFRHSADMB0gRGRgkVBDUQ"
    "SQ0AMwHSBEhICRUR0gAzAdIESkoJFRHSADMB0gRMTAkVEdIAMwHSBE5OCRUoORB2YWx1ZSAzOQA="
)
# lz4 1.9.4, level 9: matches that overlap and matches far back.
LZ4: Final = b64decode(
    "8QgkAAAACmtleSAwDnZhbHVlIDAAJAACAhMAEzETAGExACQABAQTABMyEwBhMgAkAAYGEwATMxMAYTMAJAAICBMAEzQTAGE0ACQA"
    "CgoTABM1EwBhNQAkAAwMEwATNhMAYTYAJAAODhMAEzcTAGE3ACQAEBATABM4EwBhOAAkABISEwATORMAcTkAKAAUFAyrACMwEKwA"
    "YjAAKAAWFhUAFDEVAGIxACgAGBgVABQyFQBiMgAoABoaFQAUMxUAYjMAKAAcHBUAFDQVAGI0ACgAHh4VABQ1FQBiNQAoACAgFQAU"
    "NhUAYjYAKAAiIhUAFDcVAGI3ACgAJCQVABQ4FQBiOAAoACYmFQAUORUAANIAISgoFQAUMtIAEDLSACIqKhUABNIAEDLSACIsLBUA"
    "BNIAEDLSACIuLhUABNIAEDLSACIwMBUABNIAEDLSACIyMhUABNIAEDLSACI0NBUABNIAEDLSACI2NhUABNIAEDLSACI4OBUABNIA"
    "EDLSACI6OhUABNIAEDLSACE8PBUAFDPSABAz0gAiPj4VAATSABAz0gAiQEAVAATSABAz0gAiQkIVAATSABAz0gAiREQVAATSABAz"
    "0gAiRkYVAATSABAz0gAiSEgVAATSABAz0gAiSkoVAATSABAz0gAiTEwVAATSABAz0gAiTk4VALA5EHZhbHVlIDM5AA=="
)
# zstd 1.5.7, level 19: a whole frame with content size and checksum, Huffman literals and FSE sequences.
ZSTD: Final = b64decode(
    "KLUv/WQ0AiUHAMKLJhlAeQP8//mOiYNFWXlld28WG1iUCgeLoisD9bpEsfcw5BwE9/4+rT0v567DmOP+t+1eTbPY4iy7LgzrvXfO"
    "9947Z63/c7YWY8v6r6p7Kcq+/Wm6LknqPYo4h6C9n0drx8m5aTBmmP9luVdR7GFvkSR1qteFIL0fB+eGsXdRaE0QOQ8DxoLwHwT3"
    "AkCNqn3I0xxRwz4pWRK11ihzqBFwctP+BvClNcCEkB4gzZpllixZssmSKTipXaV16y1btmyzLTjJbqV165ZbtmxZi7LCK/4N2CGv"
    "PeV1XfeqV31WtwlZBQKb5XE="
)
# zstd 1.5.7, level 3: a whole frame of two blocks, the second with repeated offsets.
ZSTD_BLOCKS: Final = b64decode(
    "KLUv/QBYlAYAQswjHlDFJh3AAOKQMTMzCGtrlhByA4PQCYc1cI166yWop5RJpKIa4p0xCOS+1uNxz3Q47rhwtfdpajTuknR3jyIG"
    "4w5BjnN/nsXi3ppCcWcskbivhUDcMw+HO6bCZAyG+zQVCt+SpNR3FDXNNwQxzPfzLMt3awTCN2ODwfdaAsF3ZiDwjY6EMolUGnQC"
    "JADLfwEvIPDlo8gdRe4ocodJ3OrduMgdRe4ockeRO4rcUckdRe4oIxdzmJsRLG8rd0XN28pdUXlbuSsqbyvuipK8rU1N1QMAAscT"
    "FnBVmgP8B+N2u93B2rbt5cbRIKB6JwWn1DT3TIa5I7Qsd0RFuZ+TJPc7BLmbHce9yjDuglAU98ACI4h7SsNwz8y8I4R4R7y7n1N1"
    "vwIEAh4QAESMIncUuaPIHUXuKHJHkTuK3FHkDpO41bu4yB1F7ihyR5E7HAE="
)
