"""What a claim loop does about tasks that are due and yet could not be claimed. Pure arithmetic."""

_FIRST_SECONDS = 0.02
_LONGEST_SECONDS = 5.0
_LARGEST_CROWD = 8


class Contention:
    """Others hold their locks, or they wait for their last chance alone.

    ``crowd``: claims look at so many times more candidates than they can take, as far as others turn out to claim the
    same ones.
    """

    def __init__(self, longest_seconds: float) -> None:
        self._longest = min(longest_seconds, _LONGEST_SECONDS)
        self._seconds = _FIRST_SECONDS
        self.crowd = 1

    def met(self, *, found: bool) -> float:
        """Seconds until the next try: at once with a wider look while that can help, then less and less often."""
        if self.crowd < _LARGEST_CROWD:
            self.crowd += 1
            self._seconds = 0.0
        elif found:
            self._seconds = _FIRST_SECONDS
        else:
            self._seconds = min(max(self._seconds * 2, _FIRST_SECONDS), self._longest)
        return self._seconds

    def over(self) -> None:
        self._seconds = _FIRST_SECONDS
        self.crowd = 1
