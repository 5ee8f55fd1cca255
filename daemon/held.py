"""The requests whose outputs are held to grammars: what each may be given next is asked for all of a step together."""

from __future__ import annotations

from ..protocol import Grammar, Refusal
from .constraints import Ahead, Given, Grammars, Stuck
from .drafts import Drafts
from .requests import Request


class Held:
    def __init__(self, grammars: Grammars, drafts: Drafts) -> None:
        self._grammars = grammars
        self._drafts = drafts
        self._given: dict[Request, list[int]] = {}  # tokens that their grammars have not read yet

    def begin(self, request: Request, grammar: Grammar) -> None:
        """Holds it from its first token on; raises Refusal."""
        if not request.ends:
            raise Refusal("bad_argument", "grammar: no token ends this request, expected ignore_eos=0 or a stop")
        request.constraint, allowed = self._grammars.begin(grammar, request.ends.keys())
        request.ahead = Ahead((allowed,))

    def note(self, request: Request, token: int) -> None:
        """It has been given this token, and may be given more."""
        if request.ahead is None:
            return
        tokens = self._given.setdefault(request, [])
        place, draft = len(tokens), request.ahead.draft
        if request.guesser is not None and request.ahead.forced <= place < len(draft):
            request.guesser.note_forced(draft[place] == token)
        tokens.append(token)

    def look_ahead(self) -> list[tuple[Request, str]]:
        """Those that nothing can be given any more, and why."""
        chosen, self._given = self._given, {}
        going = [(request, tokens) for request, tokens in chosen.items() if request.ended is None]
        if not going:
            return []
        given = []
        for request, tokens in going:
            guess, most = self._drafts.ahead(request, len(going))
            given.append(Given(request.constraint, tokens, guess, most))
        stuck = []
        for (request, _), ahead in zip(going, self._grammars.follow(given), strict=True):
            if isinstance(ahead, Stuck):
                stuck.append((request, ahead.error))
            else:
                request.ahead = ahead
        return stuck
