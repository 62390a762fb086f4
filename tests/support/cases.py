"""Many short cases in one test, since pytest takes longer to set up a test than such a case
takes.
"""

from __future__ import annotations

import functools
import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[..., Callable[..., Any]]:
    """Like `pytest.mark.parametrize`, but one test, which ends at the first case that fails and
    names it.

    The cases share their fixtures. The test may be asynchronous.
    """
    if isinstance(names, str):
        names, cases = (names,), ((case,) for case in cases)
    given = [dict(zip(names, case, strict=True)) for case in cases]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            for values in given:
                with naming(values):
                    test(**fixtures, **values)

        @functools.wraps(test)
        async def await_each(**fixtures: Any) -> None:
            for values in given:
                with naming(values):
                    await test(**fixtures, **values)

        decorated: Any = await_each if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        parameters = [each for each in signature.parameters.values() if each.name not in names]
        decorated.__signature__ = signature.replace(parameters=parameters)
        return cast("Callable[..., Any]", decorated)

    return decorate


@contextmanager
def naming(values: dict[str, Any]) -> Iterator[None]:
    """Name the case in what the block raises."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case {values!r:.1000}")
        raise
