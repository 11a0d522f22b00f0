"""Checks captured requests with the providers' own packages.

Reads JSON lines from standard input, each `{"check": …, …}`, and prints one line for every request that is fine. The first
one that isn't ends the program with an error that says why.
"""

import base64
import collections.abc
import functools
import json
import sys
import types
import urllib.request
from urllib.parse import unquote, urlsplit

import typing_extensions as typing


class Misfit(Exception):
    """A value isn't of a type. Of several choices, the deepest says most, unless it is another choice."""

    def __init__(self, path, why):
        super().__init__(f"{'.'.join(map(str, path))}: {why}")
        self.depth = 0 if path and path[-1] in ("type", "role") else 1 + len(path)


@functools.cache
def fields_of(declared):
    hints = typing.get_type_hints(declared, include_extras=True)
    required = {
        name
        for name, hint in hints.items()
        if typing.get_origin(hint) is typing.Required
        or (name in declared.__required_keys__ and typing.get_origin(hint) is not typing.NotRequired)
    }
    return hints, required


def by_type(declared, value, path=()):
    """Holds a JSON value against a type of a package; a field that the type doesn't have is an error."""
    origin, inner = typing.get_origin(declared), typing.get_args(declared)
    if declared in (object, typing.Any):
        return
    if origin in (typing.Required, typing.NotRequired, typing.Annotated):
        by_type(inner[0], value, path)
    elif origin is typing.Literal:
        if value not in inner:
            raise Misfit(path, f"{value!r} is none of {inner}")
    elif origin in (typing.Union, types.UnionType):
        misfits = []
        for choice in inner:
            try:
                return by_type(choice, value, path)
            except Misfit as misfit:
                misfits.append(misfit)
        raise max(misfits, key=lambda misfit: misfit.depth)
    elif typing.is_typeddict(declared):
        hints, required = fields_of(declared)
        if not isinstance(value, dict):
            raise Misfit(path, f"{value!r} is no {declared.__name__}")
        # What tells the choices apart comes first, so that only the right one gets deeper.
        for name in sorted(value, key=lambda name: name not in ("type", "role")):
            if name not in hints:
                raise Misfit(path, f"{declared.__name__} has no {name}")
            by_type(hints[name], value[name], (*path, name))
        if missing := required - value.keys():
            raise Misfit(path, f"{declared.__name__} needs {sorted(missing)}")
    elif origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            raise Misfit(path, f"{value!r} is no object")
        for name, item in value.items():
            by_type(inner[1], item, (*path, name))
    elif inner and isinstance(value, list) and hasattr(origin, "__iter__"):
        for number, item in enumerate(value):
            by_type(inner[0], item, (*path, number))
    else:
        plain = {float: (int, float), type(None): type(None)}.get(declared, declared)
        of_json = declared in (str, int, float, bool, type(None))
        if not (of_json and isinstance(value, plain)) or (isinstance(value, bool) and declared is not bool):
            raise Misfit(path, f"{value!r} is no {declared}")


def streaming(module, body):
    name = "Streaming" if body.get("stream") else "NonStreaming"
    for declared in vars(module).values():
        if getattr(declared, "__name__", "").endswith(f"Params{name}"):
            return declared
    raise LookupError(f"{module.__name__} has no parameters for {name}")


def messages(request):
    from anthropic.types import message_create_params

    by_type(streaming(message_create_params, request["body"]), request["body"])


def chat(request):
    from openai.types.chat import completion_create_params

    for message in request["body"]["messages"]:
        # Servers that aren't OpenAI's give reasoning in this field, and want it back.
        if message["role"] == "assistant":
            message.pop("reasoning_content", None)
    by_type(streaming(completion_create_params, request["body"]), request["body"])


def responses(request):
    from openai.types.responses import response_create_params

    for item in request["body"]["input"]:
        # Nothing is stored, so a message goes back without what only its store gave it.
        if item.get("type") == "message" and item["role"] == "assistant":
            item |= {"id": "msg_1", "status": "completed"}
            for part in item["content"]:
                part["annotations"] = []
    by_type(streaming(response_create_params, request["body"]), request["body"])


def gemini(request):
    from google.genai import types
    from pydantic import TypeAdapter

    body = dict(request["body"])
    parts = {
        "contents": list[types.Content],
        "systemInstruction": types.Content,
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "generationConfig": types.GenerationConfig,
    }
    for name, declared in parts.items():
        if name in body:
            # Its models refuse unknown fields themselves.
            TypeAdapter(declared).validate_json(json.dumps(body.pop(name)))
    assert not body, f"unknown fields: {sorted(body)}"


def bedrock(request):
    import botocore.auth
    import botocore.loaders
    import botocore.model
    import botocore.serialize
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    url = urlsplit(request["url"])
    service = botocore.loaders.Loader().load_service_model("bedrock-runtime", "service-2")
    operation = botocore.model.ServiceModel(service).operation_model("InvokeModelWithResponseStream")
    serialized = botocore.serialize.create_serializer("rest-json").serialize_to_request(
        {"modelId": request["model"], "body": request["raw"]}, operation
    )
    assert url.path == serialized["url_path"], f"{url.path} is not {serialized['url_path']}"

    headers = request["headers"]
    fields = dict(
        part.strip().split("=", 1)
        for part in headers["authorization"].removeprefix("AWS4-HMAC-SHA256 ").split(",")
    )
    signed = fields["SignedHeaders"].split(";")
    needed = {"host", "x-amz-date"} | ({"x-amz-security-token"} if request.get("token") else set())
    assert needed <= set(signed), f"{signed} is less than {needed}"
    key_id, _, region, name, _ = fields["Credential"].split("/")
    assert name == "bedrock", name
    theirs = AWSRequest(
        "POST", request["url"], headers={header: headers[header] for header in signed}, data=request["raw"]
    )
    theirs.context["timestamp"] = headers["x-amz-date"]
    credentials = Credentials(key_id, request["secret"], request.get("token"))
    signer = botocore.auth.SigV4Auth(credentials, name, region)
    canonical = signer.canonical_request(theirs)
    signature = signer.signature(signer.string_to_sign(theirs, canonical), theirs)
    assert fields["Signature"] == signature, f"the signature differs for\n{canonical}"

    body = dict(request["body"])
    assert body.pop("anthropic_version") == "bedrock-2023-05-31"
    body.pop("anthropic_beta", None)
    assert "stream" not in body and "model" not in body
    messages({"body": body | {"model": request["model"], "stream": True}})


def vertex(request):
    from anthropic.lib.vertex import AnthropicVertex

    body = dict(request["body"])
    assert body.pop("anthropic_version") == "vertex-2023-10-16"
    assert body["stream"] is True and "model" not in body
    model = unquote(request["url"].rsplit("/", 1)[1].rpartition(":")[0])
    assert model == request["model"]
    # Its own client makes the same address of the same choices.
    client = AnthropicVertex(region=request["region"], project_id=request["project"], access_token="t")
    from anthropic._models import FinalRequestOptions

    options = client._prepare_options(
        FinalRequestOptions(method="post", url="/v1/messages", json_data={"model": model, "stream": True})
    )
    assert urlsplit(request["url"]).path.endswith(options.url), f"{request['url']} has not {options.url}"
    messages({"body": body | {"model": model}})


def assertion(request):
    """A Google service account's claim: it verifies, and says what Google's own client says."""
    from google.auth import crypt, jwt
    from google.oauth2 import service_account

    account = request["account"]
    scope = "https://www.googleapis.com/auth/cloud-platform"
    theirs = service_account.Credentials.from_service_account_info(account, scopes=[scope])
    theirs = jwt.decode(theirs._make_authorization_grant_assertion(), verify=False)
    audience = request["audience"]
    # The claim is checked by the signature, its times and who it is for.
    ours = jwt.decode(request["assertion"], certs=request["public"].encode(), audience=audience)
    assert ours["iss"] == theirs["iss"] and ours["scope"] == theirs["scope"], (ours, theirs)
    assert 0 < ours["exp"] - ours["iat"] <= theirs["exp"] - theirs["iat"], ours
    header = jwt.decode_header(request["assertion"])
    assert header["alg"] == "RS256" and header["kid"] == account["private_key_id"], header
    damaged = request["assertion"][:-8] + "AAAAAAAA"
    try:
        jwt.decode(damaged, certs=request["public"].encode(), audience=audience)
    except ValueError:
        pass
    else:
        raise AssertionError("a damaged signature verifies")
    assert crypt.RSASigner.from_service_account_info(account)


def frames(request):
    """What the scripted Bedrock sends are frames of AWS: the request is sent again, and AWS's reader reads the answer."""
    from botocore.eventstream import EventStreamBuffer

    again = urllib.request.Request(request["url"], request["raw"].encode(), request["headers"], method="POST")
    buffer = EventStreamBuffer()
    with urllib.request.urlopen(again) as response:
        buffer.add_data(response.read())
    events = []
    for event in buffer:
        assert event.headers[":message-type"] == "event", event.headers
        events.append(json.loads(base64.b64decode(json.loads(event.payload)["bytes"]))["type"])
    assert events[0] == "message_start" and events[-1] == "message_stop", events


CHECKS = {
    check.__name__: check
    for check in (messages, chat, responses, gemini, bedrock, vertex, assertion, frames)
}

for line in sys.stdin:
    request = json.loads(line)
    if "raw" in request:
        request["body"] = json.loads(request["raw"])
    try:
        CHECKS[request["check"]](request)
    except Exception as error:
        sys.exit(f"{request['check']}: {type(error).__name__}: {error}\n{str(request)[:4000]}")
    print(f"{request['check']}: fine")
