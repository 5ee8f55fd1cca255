"""The chats of a model, by its template: conversations to prompts, and answers to their parts."""

from collections.abc import Sequence
from typing import NamedTuple

from ...protocol import Grammar
from ..chat import ChatTemplate
from ..detokenizer import Decoder
from ..errors import ChatRefused
from ..harmony import Channels, Words, harmony_call, harmony_marks
from ..stop_strings import Searched, StopStrings
from ..thoughts import marks_of
from .grammars.answers import Held
from .refused import wrong
from .requests.asked import Chat
from .requests.holds import Hold
from .requests.tools import Tools
from .speech.call_marks import call_marks_of
from .speech.call_splitter import CallSplitter
from .speech.channels import ChannelSplitter, Counted
from .speech.cutter import Cutter
from .speech.thinking import Splitter
from .speech.voice import Voice
from .template_needs import begun, named, prepared


class Rendered(NamedTuple):
    """The text of a prompt, and the tools that its answer may call; `begun` is the beginning of a call that it has to
    make, with which the text ends."""

    text: str
    tools: Tools | None = None
    begun: str = ""


class Chats:
    def __init__(self, template: ChatTemplate, words: Words) -> None:
        self._template = template
        self._thoughts = marks_of(template.source)
        self._harmony = harmony_marks(template.source, words)
        self._calls = None if self._harmony else call_marks_of(template.source)
        self._held = Held(words, self._thoughts, self._calls, self._harmony)

    def render(self, chat: Chat) -> Rendered:
        """Raises HttpRefused."""
        tools, names = chat.tools, named(chat.names, self._template.source)
        if tools:
            if not self._calls and not self._harmony:
                raise wrong("tools", "the model's chat template offers none in a known way", "unsupported_parameter")
            names["tools"] = tools.described
        messages = prepared(chat.messages, self._template.source, self._calls, bool(self._harmony))
        try:
            text = begun(self._template.render(messages, **names))
        except ChatRefused as problem:
            raise wrong(chat.param, str(problem)) from None
        call = self._call_begun(tools)
        if call and self._thoughts:
            text = self._thoughts.closed(text)
        return Rendered(text + call, tools, call)

    def grammar(self, prompt: Rendered, wanted: Grammar | None, hold: Hold) -> Grammar | None:
        """Of all that the model writes. A call that has to be made is no answer, and not held to its format."""
        return self._held.grammar(wanted, prompt.text, prompt.tools, prompt.begun != "", hold)

    def voice(self, prompt: Rendered, decoder: Decoder, stops: Sequence[str]) -> Voice:
        """Of one answer to this prompt."""
        strings = StopStrings(stops)
        if self._harmony:
            counted = Counted(Channels(self._harmony, decoder, prompt.text, strings, prompt.tools is not None))
            several = prompt.tools is None or prompt.tools.several
            return Voice(Cutter(counted, Searched(strings)), ChannelSplitter(counted, several))
        thoughts = Splitter.after(self._thoughts, prompt.text) if self._thoughts else None
        calls = CallSplitter(self._calls, prompt.tools, prompt.begun) if self._calls and prompt.tools else None
        return Voice(Cutter(decoder, strings), thoughts, calls)

    def _call_begun(self, tools: Tools | None) -> str:
        if not tools or not tools.must:
            return ""
        name = tools.must[0] if len(tools.must) == 1 else None
        return self._calls.opening(name) if self._calls else harmony_call(name)
