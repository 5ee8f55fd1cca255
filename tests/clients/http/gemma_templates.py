"""Two chat templates with the marks of Gemma 4's: of the later kind, which looks for results in messages of their own,
and of the first, which looks for them in the message with the calls."""

BEGIN = (
    "{% macro written(value) %}"
    "{% if value is string %}<|\"|>{{ value }}<|\"|>{% elif value is mapping %}{{ '{' }}{{ members(value) }}{{ '}' }}"
    "{% elif value is boolean %}{{ 'true' if value else 'false' }}"
    "{% elif value is sequence %}[{% for one in value %}{{ ',' if not loop.first }}{{ written(one) }}{% endfor %}]"
    "{% else %}{{ value }}{% endif %}{% endmacro %}"
    "{% macro members(given) %}{% for name, value in given | dictsort %}{{ ',' if not loop.first }}{{ name }}:"
    "{{ written(value) }}{% endfor %}{% endmacro %}"
    "{% macro result(name, value) %}<|tool_response>response:{{ name }}{{ '{' }}value:{{ written(value) }}{{ '}' }}"
    "<tool_response|>{% endmacro %}"
    "{{ bos_token }}{% set told = namespace(last='', said=0) %}"
    "{% if tools or enable_thinking %}<|turn>system\n{% if enable_thinking %}<|think|>{{ '\n' }}{% endif %}"
    "{% for tool in tools or [] %}<|tool>declaration:{{ tool.function.name }}<tool|>{% endfor %}<turn|>\n{% endif %}"
    "{% for message in messages if message.role != 'tool' %}"
    "{% set who = 'model' if message.role == 'assistant' else message.role %}"
    "{% if not (who == 'model' and told.last == 'results') %}<|turn>{{ who }}{{ '\n' }}{% endif %}"
    "{% if message.reasoning_content and message.tool_calls %}"
    "<|channel>thought\n{{ message.reasoning_content }}\n<channel|>{% endif %}"
    "{% set told.last = who %}{% for call in message.tool_calls or [] %}"
    "{{ '<|tool_call>call:' + call.function.name }}{{ '{' }}{{ members(call.function.arguments) }}{{ '}' }}<tool_call|>"
    "{% set told.last = 'calls' %}{% endfor %}"
)
END = (
    "{{ message.content | trim }}{% if told.last == 'calls' %}<|tool_response>"
    "{% elif told.last != 'results' or message.content %}<turn|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt and told.last not in ('results', 'calls') %}<|turn>model\n"
    "{% if not enable_thinking %}<|channel>thought\n<channel|>{% endif %}{% endif %}"
)
LATER = (
    BEGIN
    + "{% if message.tool_calls %}{% for one in messages if one.role == 'tool' %}{% for call in message.tool_calls %}"
    + "{% if call.id == one.tool_call_id %}{{ result(call.function.name, one.content) }}{% set told.last = 'results' %}"
    + "{% endif %}{% endfor %}{% endfor %}{% endif %}"
    + END
)
FIRST = (
    BEGIN
    + "{% for one in message.tool_responses or [] %}{{ result(one.name, one.response) }}"
    + "{% set told.last = 'results' %}{% endfor %}"
    + END
)
