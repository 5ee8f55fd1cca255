"""What single chat templates want, mostly of messages with calls of tools: known by what stands in their source, and
done for them where the conversation stays the same."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ..harmony import harmony_message
from .call_ids import short_id
from .requests.messages import ASSISTANT, CALL_ID, CALLS, THOUGHT, TOOL, USER, Message
from .requests.options import EFFORT, NO_EFFORT, THINKS
from .speech.call_marks import BLOCK_CALL, SECTION, CallMarks, Form

ONE_CALL: Final = "single tool-calls"  # Llama 3's: one call in a turn
NINE: Final = re.compile(r"length\s*!=\s*9")  # Mistral's: ids of calls
ALTERNATE: Final = "must alternate"  # Mistral's: no user's message right behind a result
RESULTS: Final = "tool_responses"  # Gemma 4's first: results in the message that called
CHANNEL: Final = "<|channel>thought"  # Gemma 4's, which thinks only if it is told to
NO_THOUGHT: Final = f"{CHANNEL}\n<channel|>"
THINKING: Final = "thinking"  # as DeepSeek V3.1's calls what others call enable_thinking, and LFM2.5's a thought
ASKED: Final = f"not {THINKING} is defined"
JOINED: Final = re.compile(r"\[.arguments.\]\s*\+")  # DeepSeek's: arguments are texts,
NOTHING: Final = re.compile(r"\[.content.\] is none")  # and a message with calls is one that says nothing
TURN: Final = "<|turn>model\n"
TURN_END: Final = "<turn|>\n"
Turns = Iterable[Message]


def prepared(messages: Sequence[Message], source: str, marks: CallMarks | None, harmony: bool) -> list[Message]:
    """For a template of this source, whose model calls tools with these marks, or in harmony."""
    steps: list[Callable[[Turns], Turns]] = []
    if harmony or ONE_CALL in source:
        steps.append(_one_call_each)
    if harmony:
        steps.append(lambda turns: map(harmony_message, turns))
    elif f"message.{THINKING}" in source and THOUGHT not in source:
        steps.append(_with_thinking)
    if NINE.search(source):
        steps.append(_with_short_ids)
    if SECTION in source:
        steps.append(_with_numbers)
    if ALTERNATE in source:
        steps.append(_joined_to_results)
    if RESULTS in source and CALL_ID not in source:
        steps.append(_with_results)
    if BLOCK_CALL in source and JOINED.search(source):
        steps.append(_with_texts)
    if BLOCK_CALL in source and NOTHING.search(source):
        steps.append(_saying_nothing)
    if marks and CALLS not in source:
        steps.append(lambda turns: (_spelled(one, marks) for one in turns))
    turns: Turns = messages
    for step in steps:
        turns = step(turns)
    return list(turns)


def named(names: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The templates of Gemma 4 and of DeepSeek V3.1 know no effort: any asks for thoughts."""
    effort = names.get(EFFORT, NO_EFFORT)
    asks = (CHANNEL in source or ASKED in source) and effort != NO_EFFORT
    found = ({THINKS: True} if asks else {}) | dict(names)
    return ({THINKING: found[THINKS]} if ASKED in source and THINKS in found else {}) | found


def begun(text: str) -> str:
    """A prompt in which the answer's turn has begun: Gemma 4's template leaves that out behind the results of a message
    that both said something and called."""
    end = NO_THOUGHT if text.endswith(NO_THOUGHT) else ""
    before = text.removesuffix(end)
    return f"{before}{TURN}{end}" if before.endswith(TURN_END) else text


def _with_results(turns: Turns) -> Iterator[Message]:
    """Results, and what was said behind them, in the message with the calls: the first templates of Gemma 4 look for
    them there."""
    held: dict[str, Any] | None = None
    for one in turns:
        if held and one["role"] == TOOL:
            names = {call["id"]: call["function"]["name"] for call in held[CALLS]}
            response = {"name": names.get(one.get(CALL_ID), "unknown"), "response": one["content"]}
            held[RESULTS] = [*held.get(RESULTS, ()), response]
            continue
        if held and RESULTS in held and one["role"] == ASSISTANT and CALLS not in one:
            yield held | {"content": "\n".join(filter(None, (held["content"], one["content"])))}
            held = None
            continue
        if held:
            yield held
        held = dict(one) if CALLS in one else None
        if not held:
            yield one
    if held:
        yield held


def _one_call_each(turns: Turns) -> Iterator[Message]:
    """A turn with several calls and its results as several turns with one call and its result: gpt-oss's template shows
    the first call of each only, and Llama 3's refuses more."""
    bare = {"role": ASSISTANT, "content": ""}
    held: list[dict[str, Any]] = []  # calls whose results are still to come
    rest: Message = bare  # what their turn says besides
    for one in turns:
        if one["role"] == TOOL and held:
            call = next((call for call in held if call["id"] == one.get(CALL_ID)), held[0])
            held.remove(call)
            yield from (rest | {CALLS: [call]}, one)
            rest = bare
            continue
        for call in held:
            yield rest | {CALLS: [call]}
            rest = bare
        held, rest = (list(one[CALLS]), one) if CALLS in one else ([], bare)
        if not held:
            yield one
    for call in held:
        yield rest | {CALLS: [call]}
        rest = bare


def _with_short_ids(turns: Turns) -> Iterator[Message]:
    for one in turns:
        if calls := one.get(CALLS):
            one = one | {CALLS: [call | {"id": short_id(call["id"])} for call in calls]}
        yield one | {CALL_ID: short_id(one[CALL_ID])} if CALL_ID in one else one


def _with_numbers(turns: Turns) -> Iterator[Message]:
    """Ids as Kimi's models write them: the name of the function, and which call of the conversation it is."""
    numbers, count = dict[str, str](), 0
    for one in turns:
        if calls := one.get(CALLS):
            made = [f"functions.{call['function']['name']}:{number}" for number, call in enumerate(calls, count)]
            numbers |= {call["id"]: number for call, number in zip(calls, made, strict=True)}
            count += len(calls)
            one = one | {CALLS: [call | {"id": number} for call, number in zip(calls, made, strict=True)]}
        yield one | {CALL_ID: numbers.get(one[CALL_ID], one[CALL_ID])} if CALL_ID in one else one


def _with_thinking(turns: Turns) -> Iterator[Message]:
    for one in turns:
        yield one | {THINKING: one[THOUGHT]} if THOUGHT in one else one


def _with_texts(turns: Turns) -> Iterator[Message]:
    """Arguments as JSON."""
    for one in turns:
        if CALLS in one:
            one = one | {CALLS: [call | {"function": _with_text(call["function"])} for call in one[CALLS]]}
        yield one


def _with_text(function: Message) -> Message:
    return function | {"arguments": json.dumps(function["arguments"], ensure_ascii=False)}


def _saying_nothing(turns: Turns) -> Iterator[Message]:
    for one in turns:
        yield one | {"content": one["content"] or None} if CALLS in one else one


def _joined_to_results(turns: Turns) -> Iterator[Message]:
    last: Message | None = None
    for one in turns:
        if last and last["role"] == TOOL and one["role"] == USER:
            last = last | {"content": f"{last['content']}\n{one['content']}"}
            continue
        if last:
            yield last
        last = one
    if last:
        yield last


def _spelled(message: Message, marks: CallMarks) -> Message:
    """Calls as text, for a template that knows only texts: Granite 3's, the first of LFM2."""
    if CALLS not in message:
        return message
    made: list[dict[str, Any]] = [call["function"] for call in message[CALLS]]
    python = marks.form is Form.PYTHON
    written = f"[{', '.join(map(_as_python, made))}]" if python else json.dumps(made, ensure_ascii=False)
    return {name: value for name, value in message.items() if name != CALLS} | {
        "content": f"{message['content']}{marks.begin}{written}{marks.end}"
    }


def _as_python(function: Message) -> str:
    return f"{function['name']}({', '.join(f'{key}={value!r}' for key, value in function['arguments'].items())})"
