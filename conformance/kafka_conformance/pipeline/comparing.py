"""What some testees did with the same cases, by SQL: who agrees with whom, and in which cases they are wrong alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

# The outcomes of all testees for a case, by name, as one text; how many cases have it, and the first that does.
VECTORS: Final = """
    WITH answered AS (
        SELECT index,
               concat_ws(',', transform(array_sort(collect_list(struct(testee, outcome))), x -> x.outcome)) AS vector
        FROM observations GROUP BY index
    )
    SELECT vector, count(*) AS cases, min(index) AS first FROM answered GROUP BY vector ORDER BY cases DESC, vector
"""
# Disagreements that one mistake is likely to be behind.
CLUSTERS: Final = """
    SELECT testee, outcome, cases.lie, cases.magic, cases.codec, regexp_replace(observations.field, '[0-9]+', '') AS at,
           observations.kind, count(*) AS cases, count(DISTINCT answer) AS answers, min(observations.index) AS first
    FROM observations JOIN cases ON observations.index = cases.index
    WHERE outcome NOT IN ('agree', 'skipped')
    GROUP BY ALL
    ORDER BY testee, cases DESC, outcome, cases.lie, cases.magic, cases.codec, at, observations.kind
"""


def outcomes(vectors: Iterable[Mapping[str, Any]], testees: Sequence[str]) -> dict[str, dict[str, int]]:
    """How often each testee, of *testees* in the order of their names, had each outcome."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in testees}
    for row in vectors:
        for name, outcome in zip(testees, row["vector"].split(","), strict=True):
            counts[name][outcome] += row["cases"]
    return {name: dict(sorted(counter.items())) for name, counter in counts.items()}


def agreement(vectors: Iterable[Mapping[str, Any]], testees: Sequence[str]) -> dict[str, dict[str, float]]:
    """For each pair the share of cases with the same outcome, of those that neither skipped; 0 where there are none."""
    both: Counter[tuple[str, str]] = Counter()
    same: Counter[tuple[str, str]] = Counter()
    for row in vectors:
        told = dict(zip(testees, row["vector"].split(","), strict=True))
        asked = [name for name in testees if told[name] != "skipped"]
        for one in asked:
            for other in asked:
                both[one, other] += row["cases"]
                same[one, other] += row["cases"] if told[one] == told[other] else 0
    return {
        one: {other: round(same[one, other] / both[one, other], 6) if both[one, other] else 0.0 for other in testees}
        for one in testees
    }
