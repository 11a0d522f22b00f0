"""Permission questions, hooks, and which tools there are."""

import asyncio
import os

from support import *
from support import main


def answering(answer, seen=None):
    async def can_use_tool(name, input, context):
        if seen is not None:
            seen.append((name, input, context))
        return answer(name, input, context) if callable(answer) else answer

    return can_use_tool


async def streamed(prompt):
    yield {"type": "user", "message": {"role": "user", "content": str(prompt)}, "parent_tool_use_id": None, "session_id": "default"}


async def ask_with(case, script, **changes):
    """A one-shot query of a host with callbacks, which must stream its prompt."""
    return [m async for m in query(prompt=streamed(script), options=case.options(**changes))]


@behaviour
async def a_question_is_asked_and_a_yes_lets_the_call_run(case):
    seen = []
    script = Script(call("Write", file_path=case.path("a"), content="1"), "done")
    messages = await ask_with(case, script, can_use_tool=answering(PermissionResultAllow(), seen))
    assert result(messages).result == "done" and case.read("a") == "1"
    (name, input, context), = seen
    assert name == "Write" and input["file_path"] == case.path("a") and context.tool_use_id
    assert any(s.type == "setMode" and s.mode == "acceptEdits" for s in context.suggestions), context.suggestions
    assert result(messages).permission_denials == []


@behaviour
async def the_state_says_that_an_answer_is_needed(case):
    script = Script(call("Write", file_path=case.path("a"), content="1"), "done")
    messages = await ask_with(case, script, can_use_tool=answering(PermissionResultAllow()), env={"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"})
    states = [m.data["state"] for m in systems(messages, "session_state_changed")]
    assert states == ["running", "requires_action", "running", "idle"], states


@behaviour
async def a_no_goes_to_the_model_and_into_the_result(case):
    script = Script(call("Write", file_path=case.path("a"), content="1"), "understood")
    messages = await ask_with(case, script, can_use_tool=answering(PermissionResultDeny(message="not on my watch")))
    assert result(messages).result == "understood" and not os.path.exists(case.path("a"))
    block = results_of_tools(messages)[0][1]
    assert block.is_error and block.content == "not on my watch"
    denial, = result(messages).permission_denials
    assert denial["tool_name"] == "Write" and denial["tool_use_id"] == block.tool_use_id and denial["tool_input"]["content"] == "1"


@behaviour
async def a_changed_input_is_what_runs(case):
    script = Script(call("Write", file_path=case.path("a"), content="1"), "done")
    change = lambda name, input, context: PermissionResultAllow(updated_input={**input, "content": "2"})
    await ask_with(case, script, can_use_tool=answering(change))
    assert case.read("a") == "2"


@behaviour
async def suggestions_sent_back_silence_the_next_question(case):
    seen = []
    script = Script(call("Write", file_path=case.path("a"), content="1"), call("Write", file_path=case.path("b"), content="2"), "done")
    accept = lambda name, input, context: PermissionResultAllow(updated_permissions=context.suggestions)
    messages = await ask_with(case, script, can_use_tool=answering(accept, seen))
    assert len(seen) == 1 and case.read("b") == "2"
    assert any(m.data.get("permissionMode") == "acceptEdits" for m in systems(messages, "status"))


@behaviour
async def a_shell_rule_is_kept_in_the_local_settings(case):
    seen = []
    script = Script(call("Bash", command="chmod 600 made"), call("Bash", command="chmod 600 made"), "done")
    case.write("made", "")
    accept = lambda name, input, context: PermissionResultAllow(updated_permissions=context.suggestions)
    await ask_with(case, script, can_use_tool=answering(accept, seen))
    rules, = [s for s in seen[0][2].suggestions if s.type == "addRules"]
    assert rules.behavior == "allow" and rules.destination == "localSettings"
    assert rules.rules[0].tool_name == "Bash" and rules.rules[0].rule_content
    assert len(seen) == 1, "the same command is not asked about again"
    kept = [os.path.join(folder, name) for folder, _, names in os.walk(case.cwd) for name in names if name == "settings.local.json"]
    assert kept and "Bash(" in open(kept[0]).read()


@behaviour
async def two_questions_can_be_open_at_once(case):
    outside = os.path.join(os.path.dirname(case.cwd), os.path.basename(case.cwd) + "-outside")
    os.makedirs(outside)
    for name in "ab":
        with open(os.path.join(outside, name), "w") as file:
            file.write(name)
    both = asyncio.Event()
    waiting = []

    async def can_use_tool(name, input, context):
        waiting.append(input["file_path"])
        if len(waiting) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 20)
        return PermissionResultAllow() if input["file_path"].endswith("a") else PermissionResultDeny(message="not b")

    script = Script(calls(("Read", {"file_path": os.path.join(outside, "a")}), ("Read", {"file_path": os.path.join(outside, "b")})), "done")
    messages = await ask_with(case, script, can_use_tool=can_use_tool)
    assert result(messages).result == "done" and len(waiting) == 2
    blocks = [block for _, block in results_of_tools(messages)]
    assert not blocks[0].is_error and blocks[1].is_error


@behaviour
async def a_no_with_interruption_ends_the_turn(case):
    script = Script(call("Write", file_path=case.path("a"), content="1"), "never")
    async with ClaudeSDKClient(case.options(can_use_tool=answering(PermissionResultDeny(message="stop", interrupt=True)))) as client:
        messages = await turn(client, script)
        assert result(messages).terminal_reason == "aborted_tools" and result(messages).is_error
        assert script.count() == 1


@behaviour
async def a_callback_that_fails_is_a_no(case):
    async def broken(name, input, context):
        raise RuntimeError("callback broke")

    script = Script(call("Write", file_path=case.path("a"), content="1"), "ok")
    messages = await ask_with(case, script, can_use_tool=broken)
    assert "callback broke" in results_of_tools(messages)[0][1].content and not os.path.exists(case.path("a"))


@behaviour
async def an_interruption_withdraws_an_open_question(case):
    asked, script, after = asyncio.Event(), Script(call("Write", file_path=case.path("a"), content="1"), "never"), Script("fine")

    async def slow(name, input, context):
        asked.set()
        await asyncio.sleep(3600)

    async with ClaudeSDKClient(case.options(can_use_tool=slow)) as client:
        await client.query(str(script))
        await asyncio.wait_for(asked.wait(), 20)
        await client.interrupt()
        messages = await turn(client)
        assert result(messages).is_error and results_of_tools(messages)[0][1].is_error
        assert result(await turn(client, after)).result == "fine"


@behaviour
async def without_a_callback_what_would_ask_is_denied(case):
    script = Script(call("Write", file_path=case.path("a"), content="1"), "ok")
    messages = await ask(case, script)
    assert len(result(messages).permission_denials) == 1 and not os.path.exists(case.path("a"))
    refusal = systems(messages, "permission_denied")[0].data
    assert refusal["tool_name"] == "Write" and refusal["message"]


@behaviour
async def reads_and_harmless_commands_ask_nobody(case):
    seen = []
    case.write("a", "1")
    script = Script(call("Read", file_path=case.path("a")), call("Bash", command="ls"), "done")
    messages = await ask_with(case, script, can_use_tool=answering(PermissionResultDeny(), seen))
    assert result(messages).result == "done" and seen == []


@behaviour
async def modes_decide_before_anyone_is_asked(case):
    seen = []
    write = lambda name: Script(call("Write", file_path=case.path(name), content="1"), "done")
    deny = answering(PermissionResultDeny(message="no"), seen)
    await ask_with(case, write("a"), can_use_tool=deny, permission_mode="acceptEdits")
    assert case.read("a") == "1" and seen == []
    await ask_with(case, write("b"), can_use_tool=deny, permission_mode="dontAsk")
    assert not os.path.exists(case.path("b")) and seen == []
    await ask_with(case, write("c"), can_use_tool=deny, permission_mode="bypassPermissions", env={"IS_SANDBOX": "1"})
    assert case.read("c") == "1" and seen == []


@behaviour
async def rules_allow_forbid_and_take_tools_away(case):
    script = Script(call("Bash", command="mkdir one"), call("Bash", command="rm -rf one"), "done")
    messages = await ask(case, script, allowed_tools=["Bash(mkdir:*)"], disallowed_tools=["Bash(rm:*)", "WebFetch", "Grep"])
    assert os.path.isdir(case.path("one"))
    assert "Grep" not in systems(messages, "init")[0].data["tools"]
    assert "Grep" not in [t["name"] for t in script.sent(0)["body"]["tools"]]
    none, some = Script("a"), Script("b")
    await ask(case, none, tools=[])
    assert not none.sent(0)["body"].get("tools")
    await ask(case, some, tools=["Read", "Bash"])
    assert sorted(t["name"] for t in some.sent(0)["body"]["tools"]) == ["Bash", "Read"]


@behaviour
async def settings_of_the_host_count_and_sources_can_be_none(case):
    case.write(".claude/settings.json", json.dumps({"permissions": {"allow": ["Bash(mkdir:*)"]}}))
    script = Script(call("Bash", command="mkdir here"), "done")
    await ask(case, script, setting_sources=[])
    assert not os.path.exists(case.path("here"))
    script = Script(call("Bash", command="mkdir here"), "done")
    await ask(case, script, setting_sources=[], settings=json.dumps({"permissions": {"allow": ["Bash(mkdir:*)"]}}))
    assert os.path.isdir(case.path("here"))


@behaviour
async def further_folders_may_be_worked_in(case):
    other = Case()
    other.write("f", "there")
    script = Script(call("Read", file_path=other.path("f")), "{{last_tool_result}}")
    messages = await ask(case, script, add_dirs=[other.cwd])
    assert "there" in result(messages).result and result(messages).permission_denials == []


@behaviour
async def an_mcp_tool_can_answer_permission_questions(case):
    @tool("approve", "Answers", {"tool_name": str, "input": dict, "tool_use_id": str})
    async def approve(arguments):
        yes = arguments["input"]["file_path"].endswith("good")
        answer = {"behavior": "allow", "updatedInput": arguments["input"]} if yes else {"behavior": "deny", "message": "not this"}
        return {"content": [{"type": "text", "text": json.dumps(answer)}]}

    script = Script(call("Write", file_path=case.path("good"), content="1"), call("Write", file_path=case.path("bad"), content="1"), "done")
    server = create_sdk_mcp_server("gate", tools=[approve])
    messages = await ask_with(case, script, mcp_servers={"gate": server}, permission_prompt_tool_name="mcp__gate__approve")
    assert case.read("good") == "1" and not os.path.exists(case.path("bad"))
    assert "not this" in str(results_of_tools(messages)[1][1].content)


def hooking(event, function, matcher=None):
    async def hook(input, tool_use_id, context):
        return function(input) or {}

    return {event: [HookMatcher(matcher=matcher, hooks=[hook])]}


def decision(value, **fields):
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": value, **fields}}


@behaviour
async def a_hook_before_a_call_can_forbid_it(case):
    seen = []

    def forbid(input):
        seen.append(input)
        return decision("deny", permissionDecisionReason="the hook says no")

    script = Script(call("Bash", command="echo hi"), "ok")
    messages = await ask_with(case, script, hooks=hooking("PreToolUse", forbid, "Bash"))
    assert "the hook says no" in results_of_tools(messages)[0][1].content
    input, = seen
    assert input["tool_name"] == "Bash" and input["tool_input"]["command"] == "echo hi" and input["tool_use_id"]
    assert input["hook_event_name"] == "PreToolUse" and input["cwd"] == case.cwd
    assert input["session_id"] == result(messages).session_id and input["transcript_path"].endswith(".jsonl")


@behaviour
async def a_hook_before_a_call_can_allow_and_change_it(case):
    allow = lambda input: decision("allow", updatedInput={**input["tool_input"], "content": "changed"})
    script = Script(call("Write", file_path=case.path("a"), content="1"), "ok")
    messages = await ask_with(case, script, hooks=hooking("PreToolUse", allow, "Write|Edit"))
    assert case.read("a") == "changed" and result(messages).permission_denials == []


@behaviour
async def a_hook_can_want_a_person_and_its_reason_is_told(case):
    seen = []
    wants = lambda input: decision("ask", permissionDecisionReason="look at this")
    script = Script(call("Bash", command="ls"), "ok")
    await ask_with(case, script, hooks=hooking("PreToolUse", wants), can_use_tool=answering(PermissionResultAllow(), seen))
    assert len(seen) == 1 and "look at this" in str(seen[0][2].__dict__)


@behaviour
async def a_hook_that_does_not_match_is_not_called(case):
    seen = []
    script = Script(call("Bash", command="ls"), "ok")
    await ask_with(case, script, hooks=hooking("PreToolUse", seen.append, "Write|mcp__.*"))
    assert seen == []


@behaviour
async def a_hook_that_fails_decides_nothing(case):
    async def broken(input, tool_use_id, context):
        raise RuntimeError("hook broke")

    script = Script(call("Bash", command="ls"), "ok")
    messages = await ask_with(case, script, hooks={"PreToolUse": [HookMatcher(hooks=[broken])]})
    assert result(messages).result == "ok" and not results_of_tools(messages)[0][1].is_error


@behaviour
async def a_hook_after_a_call_sees_the_output_and_can_add_to_it(case):
    seen = []

    def add(input):
        seen.append(input)
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "remember the milk"}}

    script = Script(call("Bash", command="echo hi"), "ok")
    await ask_with(case, script, hooks=hooking("PostToolUse", add))
    assert seen[0]["tool_response"]["stdout"].strip() == "hi" and seen[0]["tool_use_id"]
    assert "remember the milk" in json.dumps(script.sent(1)["body"]["messages"])


@behaviour
async def a_hook_hears_of_failed_calls(case):
    seen = []
    script = Script(call("Read", file_path=case.path("none")), "ok")
    await ask_with(case, script, hooks=hooking("PostToolUseFailure", seen.append))
    assert seen and seen[0]["tool_name"] == "Read" and seen[0]["error"]


@behaviour
async def a_hook_on_prompts_can_block_and_add(case):
    blocked = Script("never")
    messages = await ask_with(case, f"secret {blocked}", hooks=hooking("UserPromptSubmit", lambda input: {"decision": "block", "reason": "no secrets"}))
    assert blocked.count() == 0 and not result(messages).is_error and "no secrets" in result(messages).result
    assert systems(messages, "init")
    added = Script("ok")
    add = lambda input: {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "it is Tuesday"}}
    await ask_with(case, added, hooks=hooking("UserPromptSubmit", add))
    assert "it is Tuesday" in json.dumps(added.sent(0)["body"]["messages"])


@behaviour
async def a_hook_on_the_end_sends_the_model_back_to_work_once(case):
    seen = []

    def once(input):
        seen.append(input["stop_hook_active"])
        return {} if input["stop_hook_active"] else {"decision": "block", "reason": "you forgot the tests"}

    script = Script("done?", "really done")
    messages = await ask_with(case, script, hooks=hooking("Stop", once))
    assert result(messages).result == "really done" and seen == [False, True]
    assert "you forgot the tests" in json.dumps(script.sent(1)["body"]["messages"])


@behaviour
async def a_hook_can_end_the_run(case):
    script = Script(call("Bash", command="ls"), "never")
    messages = await ask_with(case, script, hooks=hooking("PreToolUse", lambda input: {"continue_": False, "stopReason": "enough"}))
    assert script.count() == 1 and not result(messages).is_error and result(messages).terminal_reason == "hook_stopped"


@behaviour
async def the_strictest_of_several_hooks_wins(case):
    async def yes(input, tool_use_id, context):
        return decision("allow")

    async def no(input, tool_use_id, context):
        return decision("deny", permissionDecisionReason="strict")

    script = Script(call("Bash", command="ls"), "ok")
    messages = await ask_with(case, script, hooks={"PreToolUse": [HookMatcher(hooks=[yes]), HookMatcher(matcher="Bash", hooks=[no])]})
    assert "strict" in results_of_tools(messages)[0][1].content


@behaviour
async def a_hook_can_answer_a_permission_question(case):
    allow = lambda input: {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
    script = Script(call("Write", file_path=case.path("a"), content="1"), "ok")
    await ask_with(case, script, hooks=hooking("PermissionRequest", allow))
    assert case.read("a") == "1"


main()
