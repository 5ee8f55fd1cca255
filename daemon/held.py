"""The requests whose outputs are held to grammars: what each may be given next is asked for all of a step together."""

from __future__ import annotations

from ..protocol import Grammar, Refusal
from .constraints import Constraint, Grammars, Stuck
from .requests import Request


class Held:
    def __init__(self, grammars: Grammars) -> None:
        self._grammars = grammars
        self._chosen: list[tuple[Request, Constraint, int]] = []  # tokens whose grammars have not read them yet

    def begin(self, request: Request, grammar: Grammar) -> None:
        """Holds it from its first token on; raises Refusal."""
        if not request.ends:
            raise Refusal("bad_argument", "grammar: no token ends this request, expected ignore_eos=0 or a stop")
        request.constraint, request.allowed = self._grammars.begin(grammar, request.ends.keys())

    def note(self, request: Request, token: int) -> None:
        """It has been given this token, and may be given more."""
        if request.constraint is not None:
            self._chosen.append((request, request.constraint, token))

    def look_ahead(self) -> list[tuple[Request, str]]:
        """Those that nothing can be given any more, and why."""
        chosen, self._chosen = [one for one in self._chosen if one[0].ended is None], []
        if not chosen:
            return []
        stuck = []
        found = self._grammars.follow([(constraint, token) for _, constraint, token in chosen])
        for (request, _, _), allowed in zip(chosen, found, strict=True):
            if isinstance(allowed, Stuck):
                stuck.append((request, allowed.error))
            else:
                request.allowed = allowed
        return stuck
