"""How bad a disagreement is, worst first; `judge` says what each name stands for."""

from __future__ import annotations

from typing import Final, Literal, get_args

Severity = Literal["wrong_data", "crash", "hang", "memory", "accepts_invalid", "rejects_valid", "wrong_error", "lossy"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
Outcome = Severity | Literal["agree", "skipped"]
OUTCOMES: Final[tuple[Outcome, ...]] = (*SEVERITIES, "agree", "skipped")
# Two letters for a cell of a matrix.
SHORT: Final[dict[Outcome, str]] = {
    "wrong_data": "WD", "crash": "CR", "hang": "HG", "memory": "ME", "accepts_invalid": "AI", "rejects_valid": "RV",
    "wrong_error": "WE", "lossy": "LO", "agree": "✓", "skipped": "–",
}  # fmt: skip
