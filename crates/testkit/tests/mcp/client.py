"""Stands between the conformance suite and `lathe mcp probe`: what the suite hands over in the
environment becomes options. The first argument is the program, the last the server's address."""
import json
import os
import sys
import tempfile

context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
options = []
if "client_id" in context:
    options += ["--client-id", context["client_id"]]
if "client_secret" in context:
    os.environ["MCP_CLIENT_SECRET"] = context["client_secret"]
    options += ["--client-secret"]
if "private_key_pem" in context:
    key = tempfile.NamedTemporaryFile("w", suffix=".pem", delete=False)
    key.write(context["private_key_pem"])
    key.close()
    options += ["--client-key", key.name]
if context.get("name", "").startswith("auth/client-credentials"):
    options += ["--grant", "client_credentials"]
for call in context.get("toolCalls", []):
    options += ["--call", call["name"] + "=" + json.dumps(call["arguments"])]
program = sys.argv[1]
os.execv(program, [program, "mcp", "probe", "--json", *sys.argv[2:], *options])
