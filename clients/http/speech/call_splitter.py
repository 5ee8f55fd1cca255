"""Takes calls of tools out of an answer whose text comes in pieces: what is text leaves at once, a call when it is
complete. The blanks around a call are dropped. What stands between marks and is no call is text, marks included."""

from ..requests.tools import Tools
from .call_marks import CallMarks, Form
from .cutter import Delta, Told
from .open_call import OpenCall
from .thinking import could_begin
from .tool_calls import Call, NoCall, read_calls


class CallSplitter:
    """For one answer; thoughts pass. `done` is set when nothing more is to come: it may have one call only. Log
    probabilities go with the first piece that is sent after they came."""

    def __init__(self, marks: CallMarks, tools: Tools, begun: str = "") -> None:
        """`begun` is what the prompt has already begun the answer with."""
        self._marks = marks
        self._tools = tools
        self._python = marks.form is Form.PYTHON
        self._several = tools.several and not marks.bare  # templates with bare calls refuse several in an answer
        self._held = begun
        self._body: int | None = None  # within a call: where in `held` its text begins, behind blanks and mark
        self._call = self._opened(0)  # of this text
        self._searched = 0  # no end of it begins before this place
        self._unmarked = False
        self._begun = False  # something other than blanks has come
        self._after = False  # a call, and only blanks since
        self._told = Told()
        self.done = False

    def push(self, delta: Delta) -> list[Delta]:
        if delta.thought:
            return [delta]
        self._told.add(delta.likely)
        self._held += delta.text
        parts: list[Delta] = []
        while not self.done and (self._said(parts) if self._body is None else self._called(parts)):
            pass
        return self._told.with_first(parts)

    def finish(self, delta: Delta) -> list[Delta]:
        """The rest, with the last delta: a call that lacks nothing but its end is one."""
        parts = self.push(delta)
        last: list[Delta] = []
        if not self.done:
            self._close(last, self._held, self._body)
        return parts + self._told.rest(last)

    def _said(self, parts: list[Delta]) -> bool:
        """Takes text; True if a call begins behind it."""
        if self._marks.bare and not self._begun and self._held.lstrip().startswith("{"):
            self._body, self._unmarked = 0, True
            return True
        at = self._held.find(self._marks.begin)
        text = self._held[: could_begin(self._held, self._marks.begin) if at < 0 else at].rstrip()
        self._put(parts, text)
        self._held = self._held[len(text) :]
        if at < 0:
            return False
        self._body = self._searched = at - len(text) + len(self._marks.begin)
        self._call = self._opened(self._body)
        return True

    def _called(self, parts: list[Delta]) -> bool:
        """Takes a call; False if it is not complete."""
        mark = self._marks.end or self._marks.begin
        at = -1 if self._unmarked else self._held.find(mark, self._searched)
        if at < 0:
            self._searched = max(self._searched, len(self._held) - len(mark) + 1)
            return False
        if self._call.at(self._held, at):
            self._searched = at + 1
            return True
        whole, self._held = self._held[: at + len(self._marks.end)], self._held[at + len(self._marks.end) :]
        self._close(parts, whole, self._body, at)
        return True

    def _close(self, parts: list[Delta], whole: str, body: int | None, end: int | None = None) -> None:
        """Puts this text, whose part from `body` to `end` may be calls, or only what follows a later mark in it."""
        self._body = None
        calls = [] if body is None else self._read(whole[body:end])
        if body is not None and not calls:
            again = whole.rfind(self._marks.begin, body, end)
            if again >= 0 and not self._opened(body).at(whole, again):
                text = whole[:again].rstrip()
                self._put(parts, text)
                calls, whole = self._read(whole[again + len(self._marks.begin) : end]), whole[len(text) :]
        if not calls:
            self._put(parts, whole)
            return
        self._begun = self._after = True
        self.done = not self._several
        parts += [Delta("", call=one) for one in (calls if self._several else calls[:1])]

    def _opened(self, start: int) -> OpenCall:
        return OpenCall(start, self._python)

    def _read(self, text: str) -> list[Call]:
        try:
            calls = read_calls(text, self._tools, self._python)
        except NoCall:
            return []
        return calls if not self._unmarked or all(self._tools.has(one.name) for one in calls) else []

    def _put(self, parts: list[Delta], text: str) -> None:
        text = text.lstrip() if self._after else text
        if text:
            parts.append(Delta(text))
            self._begun, self._after = True, False
