"""When a run will end, as far as that can be told."""

from __future__ import annotations

from dataclasses import dataclass

TELLING_SHARE = 0.05
"""Share of the transfers that must have ended before their pace tells anything."""


@dataclass(frozen=True, slots=True)
class Expectation:
    share: float
    """Share of the run that is done, 0 to 1."""
    seconds: float | None
    """Real time to the end in seconds; none: nothing can be said yet."""
    bound: bool
    """Whether that is only the time to the limit, at which the run is given up."""

    def __str__(self) -> str:
        if self.seconds is None:
            return ""
        minutes, seconds = divmod(round(self.seconds), 60)
        if self.bound and minutes >= 60:
            return ""  # a limit that far away is no news
        return f"{'at most' if self.bound else 'about'} {minutes}:{seconds:02} to go"


def expectation(
    seconds: float, at_ns: float, limit_ns: float, ended: int, unfinished: int
) -> Expectation:
    """An estimate from the pace of the transfers so far, which is right where they are spread over
    the run. Where all start at once hardly any ends before the last do; until a few have, all that
    is known is when the limit would be reached at this pace."""
    transfers = ended + unfinished
    share = ended / transfers if transfers else 0.0
    of_limit = min(1.0, at_ns / limit_ns)
    if share >= TELLING_SHARE:
        return Expectation(max(share, of_limit), seconds * (1 - share) / share, bound=False)
    if of_limit > 0:
        return Expectation(of_limit, seconds * (1 - of_limit) / of_limit, bound=True)
    return Expectation(0.0, None, bound=True)
