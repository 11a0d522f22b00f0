"""The official Python client of the Agent Client Protocol drives `lathe acp`."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))

from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block  # noqa: E402
from acp.schema import (  # noqa: E402
    AllowedOutcome,
    ClientCapabilities,
    CreateTerminalResponse,
    DeniedOutcome,
    FileSystemCapabilities,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
)
from scripted import BINARY, Script, behaviour, call, hanging, main  # noqa: E402


class Editor:
    """A client that remembers what it was told and asked."""

    def __init__(self, permission=None):
        self.updates = []
        self.asked = []
        self.buffers = {}
        self.written = {}
        self.terminals = []
        self.permission = permission or (lambda options: "allow")
        self.changed = asyncio.Event()

    def on_connect(self, connection):
        self.connection = connection

    async def session_update(self, session_id, update, **_):
        self.updates.append((session_id, update))
        self.changed.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append((tool_call, options))
        chosen = self.permission(options)
        if asyncio.iscoroutine(chosen):
            chosen = await chosen
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def read_text_file(self, session_id, path, line=None, limit=None, **_):
        if path not in self.buffers:
            raise RequestError.resource_not_found(path)
        return ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, session_id, path, content, **_):
        self.written[path] = content
        with open(path, "w") as file:
            file.write(content)

    async def create_terminal(self, session_id, command, args=None, env=None, cwd=None, output_byte_limit=None, **_):
        process = await asyncio.create_subprocess_exec(
            command, *args, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        self.terminals.append(process)
        output, _ = await process.communicate()
        process.said = output.decode()
        return CreateTerminalResponse(terminal_id=str(len(self.terminals) - 1))

    async def wait_for_terminal_exit(self, session_id, terminal_id, **_):
        return WaitForTerminalExitResponse(exit_code=self.terminals[int(terminal_id)].returncode)

    async def terminal_output(self, session_id, terminal_id, **_):
        return TerminalOutputResponse(output=self.terminals[int(terminal_id)].said, truncated=False)

    async def release_terminal(self, session_id, terminal_id, **_):
        return None

    def of(self, kind, session=None):
        return [it for at, it in self.updates if it.session_update == kind and session in (None, at)]

    def text(self, session=None):
        return "".join(it.content.text for it in self.of("agent_message_chunk", session))

    async def until(self, fits):
        while not fits():
            self.changed.clear()
            await self.changed.wait()


@asynccontextmanager
async def lathe(case, editor, capabilities=None):
    # As much as the editor's own line may hold.
    kwargs = {"limit": 64 * 1024 * 1024}
    async with spawn_agent_process(
        editor, BINARY, "acp", env=dict(os.environ), cwd=case.cwd, transport_kwargs=kwargs
    ) as (agent, process):
        agent.process = process
        await agent.initialize(
            protocol_version=PROTOCOL_VERSION, client_capabilities=capabilities or ClientCapabilities()
        )
        yield agent


async def opened(agent, case):
    return (await agent.new_session(cwd=case.cwd, mcp_servers=[])).session_id


def prompt(agent, session, script):
    return agent.prompt(session_id=session, prompt=[text_block(str(script))])


@behaviour
async def a_prompt_is_answered(case):
    editor = Editor()
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        answer = await prompt(agent, session, Script({"text": "Good morning to you.", "delta_characters": 4}))
        assert answer.stop_reason == "end_turn", answer
        assert editor.text() == "Good morning to you.", editor.text()


@behaviour
async def every_update_is_one_that_the_client_knows(case):
    path = case.write("a.txt", "one\n")
    editor = Editor()
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        await prompt(agent, session, Script(
            {"content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "tool_use", "name": "Read", "input": {"file_path": path}}]},
            call("Edit", file_path=path, old_string="one", new_string="1"),
            call("TaskCreate", subject="look", description="at it"), "done"))
        kinds = {it.session_update for _, it in editor.updates}
        wanted = {"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan",
                  "available_commands_update", "usage_update", "session_info_update"}
        assert wanted <= kinds, kinds
        (diff,) = [it for it in editor.of("tool_call_update") if it.content and it.content[0].type == "diff" and it.status == "completed"]
        assert diff.content[0].new_text == "1\n"


@behaviour
async def a_no_is_told_and_nothing_is_written(case):
    editor = Editor(permission=lambda options: "reject")
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        answer = await prompt(agent, session, Script(call("Write", file_path=case.path("a"), content="x"), "a pity"))
        assert answer.stop_reason == "end_turn"
        assert not os.path.exists(case.path("a"))
        assert len(editor.asked) == 1


@behaviour
async def a_question_that_is_cancelled_ends_the_turn(case):
    editor = Editor(permission=lambda options: None)
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        answer = await prompt(agent, session, Script(call("Write", file_path=case.path("a"), content="x"), "never"))
        assert answer.stop_reason == "cancelled", answer
        assert not os.path.exists(case.path("a"))


@behaviour
async def cancel_while_the_model_writes(case):
    editor = Editor()
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        running = asyncio.ensure_future(prompt(agent, session, Script(hanging())))
        await editor.until(lambda: editor.text())
        await agent.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"
        assert (await prompt(agent, session, Script("again"))).stop_reason == "end_turn"


@behaviour
async def cancel_while_a_command_runs(case):
    editor = Editor()
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        running = asyncio.ensure_future(prompt(agent, session, Script(call("Bash", command="echo a; sleep 600"), "never")))
        await editor.until(lambda: any(it.status == "in_progress" for it in editor.of("tool_call_update")))
        await agent.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"


@behaviour
async def cancel_while_a_question_is_open(case):
    asked = asyncio.Event()

    async def never():
        asked.set()
        await asyncio.Event().wait()

    editor = Editor(permission=lambda options: never())
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        running = asyncio.ensure_future(prompt(agent, session, Script(call("Write", file_path=case.path("a"), content="x"), "never")))
        await asked.wait()
        await agent.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"
        assert not os.path.exists(case.path("a"))


@behaviour
async def cancel_while_a_prompt_waits_for_its_turn(case):
    editor = Editor()
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        first = asyncio.ensure_future(prompt(agent, session, Script(hanging())))
        await editor.until(lambda: editor.text())
        second = asyncio.ensure_future(prompt(agent, session, Script("never")))
        await asyncio.sleep(0)
        await agent.cancel(session_id=session)
        assert [(await it).stop_reason for it in (first, second)] == ["cancelled", "cancelled"]


@behaviour
async def two_sessions_run_at_once(case):
    editor = Editor()
    async with lathe(case, editor) as agent:
        one, two = await opened(agent, case), await opened(agent, case)
        slow = asyncio.ensure_future(prompt(agent, one, Script(hanging("the first waits"))))
        await editor.until(lambda: editor.text(one))
        assert (await prompt(agent, two, Script("the second answers"))).stop_reason == "end_turn"
        assert editor.text(two) == "the second answers"
        await agent.cancel(session_id=one)
        assert (await slow).stop_reason == "cancelled"


@behaviour
async def an_unsaved_buffer_is_read_and_changed(case):
    path = case.write("a.txt", "saved\n")
    editor = Editor()
    editor.buffers[path] = "typed\n"
    able = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=True))
    async with lathe(case, editor, able) as agent:
        session = await opened(agent, case)
        script = Script(call("Read", file_path=path), call("Edit", file_path=path, old_string="typed", new_string="changed"), "done")
        await prompt(agent, session, script)
        assert "typed" in str(script.sent(1)["body"]["messages"])
        assert editor.written == {path: "changed\n"}, editor.written


@behaviour
async def a_command_runs_in_the_editors_terminal(case):
    editor = Editor()
    async with lathe(case, editor, ClientCapabilities(terminal=True)) as agent:
        session = await opened(agent, case)
        script = Script(call("Bash", command="touch made; echo from the terminal"), "done")
        await prompt(agent, session, script)
        assert "from the terminal" in str(script.sent(1)["body"]["messages"])
        assert len(editor.terminals) == 1 and os.path.exists(case.path("made"))


@behaviour
async def a_loaded_session_is_replayed_before_the_answer(case):
    editor = Editor()
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        await prompt(agent, session, Script("what was said"))
    later = Editor()
    async with lathe(case, later) as agent:
        await agent.load_session(cwd=case.cwd, session_id=session, mcp_servers=[])
        await later.until(lambda: later.text(session) == "what was said")
        assert later.of("user_message_chunk")


@behaviour
async def sessions_are_listed_resumed_forked_and_closed(case):
    editor = Editor()
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        await prompt(agent, session, Script("x"))
        listed = await agent.list_sessions(cwd=case.cwd)
        assert [it.session_id for it in listed.sessions] == [session], listed
        fork = await agent.fork_session(cwd=case.cwd, session_id=session, mcp_servers=[])
        assert fork.session_id != session
        await agent.close_session(session_id=session)
        try:
            await prompt(agent, session, Script("y"))
            raise AssertionError("a closed session took a prompt")
        except RequestError as error:
            assert error.code == -32002, error
        await agent.resume_session(cwd=case.cwd, session_id=session, mcp_servers=[])
        assert (await prompt(agent, session, Script("z"))).stop_reason == "end_turn"


@behaviour
async def modes_and_options_are_set(case):
    editor = Editor()
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        await agent.set_session_mode(session_id=session, mode_id="acceptEdits")
        await prompt(agent, session, Script(call("Write", file_path=case.path("a"), content="x"), "done"))
        assert not editor.asked and os.path.exists(case.path("a"))
        changed = await agent.set_config_option(session_id=session, config_id="effort", value="low")
        (effort,) = [it for it in changed.config_options if it.id == "effort"]
        assert effort.current_value == "low", effort


@behaviour
async def wrong_requests_are_errors_with_a_code(case):
    async with lathe(case, Editor()) as agent:
        for work, code in [
            (agent.new_session(cwd="relative", mcp_servers=[]), -32602),
            (agent.load_session(cwd=case.cwd, session_id="none", mcp_servers=[]), -32002),
            (agent.ext_method("no/such", {}), -32601),
        ]:
            try:
                await work
                raise AssertionError("no error")
            except RequestError as error:
                assert error.code == code, (error.code, code, str(error))


@behaviour
async def a_client_that_is_killed_leaves_nothing_behind(case):
    editor = Editor()
    async with lathe(case, editor) as agent:
        session = await opened(agent, case)
        asyncio.ensure_future(prompt(agent, session, Script(call("Bash", command="echo $$ > pid; sleep 600"), "never"))).add_done_callback(lambda it: it.exception())
        while not (os.path.exists(case.path("pid")) and case.read("pid").strip()):
            await asyncio.sleep(0.01)
        agent.process.stdin.close()
        assert await agent.process.wait() == 0
        try:
            os.kill(int(case.read("pid")), 0)
            raise AssertionError("the command still runs")
        except ProcessLookupError:
            pass


main()
