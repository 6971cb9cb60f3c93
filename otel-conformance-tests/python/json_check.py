"""Reads lines of {"signal", "json", "proto"}: OTLP JSON, and the same data as protobuf.

Answers each with "same " and the JSON that this side writes for the data, or with how the two differ.
"""

import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

import otlp_ids

MESSAGES = {"logs": logs_pb2.LogsData, "metrics": metrics_pb2.MetricsData, "traces": trace_pb2.TracesData}


def check(case):
    message = MESSAGES[case["signal"]]
    want = message()
    want.ParseFromString(base64.b64decode(case["proto"]))
    try:
        got = json_format.ParseDict(otlp_ids.to_base64(json.loads(case["json"])), message())
    except (ValueError, json_format.ParseError) as error:
        return "cannot be read: " + str(error).replace("\n", " ")
    # As bytes: NaN is not equal to itself.
    if got.SerializeToString(deterministic=True) != want.SerializeToString(deterministic=True):
        return "differs: " + str(want).replace("\n", " ") + " was read as " + str(got).replace("\n", " ")
    own = otlp_ids.to_hex(json_format.MessageToDict(want, use_integers_for_enums=True))
    return "same " + json.dumps(own)


for line in sys.stdin:
    print(check(json.loads(line)), flush=True)
