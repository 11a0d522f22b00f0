"""What the Python programs of the Agent SDK share: options for the binary, and questions about its messages."""

from claude_agent_sdk import *  # noqa: F401,F403
from scripted import *  # noqa: F401,F403
from scripted import BINARY, Folder
from scripted import main as run


class Case(Folder):
    def options(self, **changes):
        changes.setdefault("cwd", self.cwd)
        return ClaudeAgentOptions(cli_path=BINARY, stderr=self.errors.append, **changes)


async def ask(case, prompt, **changes):
    """A one-shot query; all messages."""
    return [message async for message in query(prompt=str(prompt), options=case.options(**changes))]


async def turn(client, prompt=None):
    """One turn of a client; all messages up to the result."""
    if prompt is not None:
        await client.query(str(prompt))
    return [message async for message in client.receive_response()]


def result(messages):
    found = [message for message in messages if isinstance(message, ResultMessage)]
    assert len(found) == 1, messages
    return found[0]


def results_of_tools(messages):
    return [
        (message, block)
        for message in messages
        if isinstance(message, UserMessage) and isinstance(message.content, list)
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]


def systems(messages, subtype):
    return [message for message in messages if isinstance(message, SystemMessage) and message.subtype == subtype]


def main():
    run(Case)
