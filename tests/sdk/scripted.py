"""What the Python programs share that drive the binary, whichever package they drive it with: the model's script, a
folder for each behaviour, and the runner.

A behaviour is an async function whose name says what holds. Several run at once; each has a folder
and scripts of its own.
"""

import asyncio
import json
import os
import sys
import traceback
import uuid

BINARY = os.environ["LATHE_TEST_BINARY"]
REQUESTS = os.environ["LATHE_TEST_REQUESTS"]
LIMIT = 50

behaviours = []


def behaviour(function, limit=LIMIT):
    function.limit = limit
    behaviours.append(function)
    return function


class Folder:
    """One behaviour's folder and what was written to standard error."""

    def __init__(self):
        root = os.path.join(os.environ["TMPDIR"], uuid.uuid4().hex)
        os.makedirs(root)
        self.cwd = os.path.realpath(root)
        self.errors = []

    def path(self, name):
        return os.path.join(self.cwd, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()


class Script:
    """What the model answers, request by request; put into the prompt."""

    def __init__(self, *replies):
        self.id = uuid.uuid4().hex
        self.replies = [reply if isinstance(reply, dict) else {"text": reply} for reply in replies]

    def __str__(self):
        return f'<model id="{self.id}">{json.dumps(self.replies)}</model>'

    def reference(self):
        """The script by its file, for a prompt that stands inside another script."""
        with open(os.path.join(REQUESTS, f"{self.id}.script"), "w") as file:
            json.dump(self.replies, file)
        return f'<script id="{self.id}"/>'

    def sent(self, index):
        with open(os.path.join(REQUESTS, f"{self.id}-{index}.json")) as file:
            return json.load(file)

    def count(self):
        return len([name for name in os.listdir(REQUESTS) if name.startswith(self.id + "-")])


def call(name, **input):
    return {"content": [{"type": "tool_use", "name": name, "input": input}]}


def calls(*pairs):
    return {"content": [{"type": "tool_use", "name": name, "input": input} for name, input in pairs]}


def hanging(text="a long answer that never comes to its end"):
    return {"text": text, "delta_characters": 4, "pauses": [{"at": {"mid_block": 0}, "wait": "forever"}]}


async def _run(function, gate, case):
    async with gate:
        try:
            await asyncio.wait_for(function(case()), function.limit)
            print(f"ok {function.__name__}", flush=True)
            return True
        except BaseException:
            print(f"FAILED {function.__name__}\n{traceback.format_exc()}", flush=True)
            return False


def main(case=Folder):
    async def all_of_them():
        gate = asyncio.Semaphore(4)
        wanted = sys.argv[1:]
        chosen = [f for f in behaviours if not wanted or f.__name__ in wanted]
        return await asyncio.gather(*(_run(function, gate, case) for function in chosen))

    sys.exit(0 if all(asyncio.run(all_of_them())) else 1)
