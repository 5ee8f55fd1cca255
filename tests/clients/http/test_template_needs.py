"""What single templates want of calls of tools: the conversation stays the same, in a form that they take."""

import json
from typing import Any

from paceline.clients.http.speech.call_marks import CallMarks, call_marks_of
from paceline.clients.http.template_needs import prepared

HI = {"role": "user", "content": "Hi"}
PLAIN = "{{ message.tool_calls }}"
MARKS = CallMarks("<|tool_call|>", before='[{"name":')


def call(name: str, function: str = "f") -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": function, "arguments": {"x": "é"}}}


def called(*calls: dict[str, Any], content: str = "", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)} | more


def result(name: str, content: str = "1") -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": name}


def test_most_templates_take_messages_as_they_are() -> None:
    chat = [HI, called(call("call_1"), call("call_2")), result("call_1"), result("call_2"), HI]
    assert prepared(chat, PLAIN, MARKS, harmony=False) == chat == prepared(chat, PLAIN, None, harmony=False)


def test_ids_of_nine_letters() -> None:
    source = PLAIN + "{% if id|length != 9 %}{{ raise_exception('no') }}{% endif %}"
    chat = [HI, called(call("call_1"), call("a1B2c3D4e")), result("call_1"), result("a1B2c3D4e"), HI]
    first, turn, *results, last = prepared(chat, source, None, harmony=False)
    names = [one["id"] for one in turn["tool_calls"]]
    assert names == [one["tool_call_id"] for one in results] and first == last == HI
    assert len(names[0]) == 9 and names[0].isalnum() and names[0].isascii() and names[1] == "a1B2c3D4e"
    assert prepared(chat, source, None, harmony=False)[1]["tool_calls"][0]["id"] == names[0]
    others = [
        prepared([result(name)], source, None, False)[0]["tool_call_id"] for name in ("", "é", "\ud800", "call_2")
    ]
    assert len({names[0], *others}) == 5 and chat[1]["tool_calls"][0]["id"] == "call_1"


def test_what_a_user_says_behind_a_result_is_part_of_it() -> None:
    source = PLAIN + "{{ raise_exception('roles must alternate') }}"
    said = {"role": "assistant", "content": "Yes"}
    chat = [HI, called(call("a")), result("a"), HI, said, HI]
    assert prepared(chat, source, None, harmony=False) == [HI, called(call("a")), result("a", "1\nHi"), said, HI]
    assert prepared([], source, None, harmony=False) == []


def test_a_template_that_knows_no_calls_gets_them_as_text() -> None:
    chat = [HI, called(call("a"), call("b", "g"), content="I look. "), result("a")]
    spelled = json.dumps([call("a")["function"], call("b", "g")["function"]], ensure_ascii=False)
    turn = {"role": "assistant", "content": f"I look. <|tool_call|>{spelled}"}
    assert prepared(chat, "{{ message.content }}", MARKS, harmony=False) == [HI, turn, result("a")]
    tagged = CallMarks("<tool_call>", "</tool_call>")
    assert prepared(chat, "", tagged, harmony=False)[1]["content"].endswith("]</tool_call>")


def test_calls_as_text_are_pythons_where_the_model_writes_these() -> None:
    marks = call_marks_of("tools <|tool_list_start|>")
    chat = [HI, called(call("a"), call("b", "g"), content="I look. ")]
    turn = {"role": "assistant", "content": "I look. <|tool_call_start|>[f(x='é'), g(x='é')]<|tool_call_end|>"}
    assert prepared(chat, "{{ message.content }}", marks, harmony=False) == [HI, turn]


def test_thoughts_by_another_name() -> None:
    chat = [HI, called(call("a"), reasoning_content="Hm"), result("a")]
    thinking = chat[1] | {"thinking": "Hm"}
    assert prepared(chat, f"{PLAIN}{{{{ message.thinking }}}}", None, harmony=False) == [HI, thinking, result("a")]
    known = f"{PLAIN}{{{{ message.thinking or message.reasoning_content }}}}"
    assert prepared(chat, known, None, harmony=False) == chat


def test_ids_that_count() -> None:
    chat = [
        HI,
        called(call("a"), call("b", "g")),
        result("b"),
        result("a"),
        called(call("c")),
        result("c"),
        result("d"),
    ]
    made = prepared(chat, f"{PLAIN}<|tool_calls_section_begin|>", None, harmony=False)
    assert [[one["id"] for one in turn["tool_calls"]] for turn in made if "tool_calls" in turn] == [
        ["functions.f:0", "functions.g:1"], ["functions.f:2"],
    ]  # fmt: skip
    results = [turn["tool_call_id"] for turn in made if turn["role"] == "tool"]
    assert results == ["functions.g:1", "functions.f:0", "functions.f:2", "d"] and chat[1] == called(
        call("a"), call("b", "g")
    )


def test_llama_has_one_call_in_a_turn() -> None:
    source = PLAIN + "{{ raise_exception('This model only supports single tool-calls at once!') }}"
    chat = [HI, called(call("a"), call("b"), content="I look."), result("a"), result("b")]
    assert prepared(chat, source, None, harmony=False) == [
        HI, called(call("a"), content="I look."), result("a"), called(call("b")), result("b"),
    ]  # fmt: skip


def test_harmony_has_one_call_in_a_turn() -> None:
    turn = called(call("a"), call("b"), call("c"), call("d"), reasoning_content="Hm")
    thinking = called(call("b"), reasoning_content="Hm", thinking="Hm")
    assert prepared([HI, turn, result("b"), result("a"), HI], PLAIN, None, harmony=True) == [
        HI, thinking, result("b"), called(call("a")), result("a"), called(call("c")), called(call("d")), HI,
    ]  # fmt: skip
    unnamed = [called(call("a"), call("b")), result("x"), result("y"), result("z")]
    assert prepared(unnamed, PLAIN, None, harmony=True) == [
        called(call("a")), result("x"), called(call("b")), result("y"), result("z"),
    ]  # fmt: skip
    assert prepared([called(call("a"), call("b"))], PLAIN, None, harmony=True) == [called(call("a")), called(call("b"))]
