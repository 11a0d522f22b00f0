"""Reads OTLP/JSON documents from standard input with the official protobuf types, and prints them as these write them.

The JSON form of the protocol has ids in hexadecimal digits, where protobuf's has base64; nothing else differs. A field
that the types don't know is an error.
"""
import base64
import json
import sys

from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TYPES = {
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
    "/v1/traces": ExportTraceServiceRequest,
}
LENGTHS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def converted(value):
    if isinstance(value, list):
        return [converted(entry) for entry in value]
    if isinstance(value, dict):
        result = {}
        for key, entry in value.items():
            if key in LENGTHS and entry:
                raw = bytes.fromhex(entry)
                assert len(raw) == LENGTHS[key], f"{key} has {len(raw)} bytes"
                entry = base64.b64encode(raw).decode()
            result[key] = converted(entry)
        return result
    return value


kind = TYPES[sys.argv[1]]
print(json.dumps([MessageToDict(ParseDict(converted(document), kind())) for document in json.load(sys.stdin)]))
