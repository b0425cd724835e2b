"""What the pages' prose says, page by page: the numbers in it are computed from the result files, its words are put to
them.
"""

from __future__ import annotations

from evidence.claims import cofed, draftfed, fedin, mhat, overview, perhefed
from evidence.claims.kinds import Claims

CLAIMS: dict[str, Claims] = {
    "evidence": overview.CLAIMS,
    "cofed": cofed.CLAIMS,
    "draftfed": draftfed.CLAIMS,
    "fedin": fedin.CLAIMS,
    "mhat": mhat.CLAIMS,
    "perhefed": perhefed.CLAIMS,
}
