"""Many short cases in one test, since pytest takes longer to set up a test than such a case takes."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[..., Callable[..., None]]:
    """Like `pytest.mark.parametrize`, but one test, which ends at the first case that fails and names it.

    The cases share their fixtures.
    """
    listed = list(cases)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            for case in listed:
                values = {names: case} if isinstance(names, str) else dict(zip(names, case, strict=True))
                try:
                    test(**fixtures, **values)
                except BaseException as error:
                    error.add_note(f"in the case {values!r:.1000}")
                    raise

        signature = inspect.signature(test)
        parameters = [each for each in signature.parameters.values() if each.name not in names_of(names)]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def names_of(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names
