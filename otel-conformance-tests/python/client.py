"""Requests of an independent client: Python's HTTP client and Google's gRPC, one line of JSON each way.

A line asks for a request: {"to": "http" or "grpc", "port", "path", "headers", "body" in base64, "pad": so many
bytes of nothing behind it, "compress": "gzip", "deflate" or ""}. The answer is {"status", "headers", "body",
"error"} over HTTP, the last being the google.rpc.Status in the body of a refusal, as Google's protobuf reads it;
over gRPC {"status": the code, "message", "is_partial", "has_retry_info"}.
"""

import base64
import gzip
import http.client
import json
import sys
import zlib

import grpc
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2

PACK = {"": lambda body: body, "deflate": zlib.compress, "gzip": gzip.compress}
GRPC_PACK = {"": grpc.Compression.NoCompression, "deflate": grpc.Compression.Deflate, "gzip": grpc.Compression.Gzip}


def over_http(ask, body):
    connection = http.client.HTTPConnection("127.0.0.1", ask["port"], timeout=30)
    headers = dict(ask["headers"])
    if ask["compress"]:
        headers["Content-Encoding"] = ask["compress"]
    connection.request(ask.get("method", "POST"), ask["path"], PACK[ask["compress"]](body), headers)
    answer = connection.getresponse()
    said = answer.read()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    connection.close()
    error = None if answer.status == 200 else error_in(said, headers.get("content-type", ""))
    return {"status": answer.status, "headers": headers, "body": base64.b64encode(said).decode(), "error": error}


def error_in(body, content_type):
    status = status_pb2.Status()
    if content_type == "application/x-protobuf":
        status.ParseFromString(body)
    elif content_type == "application/json":
        json_format.Parse(body, status)
    else:
        return None
    return {"code": status.code, "message": status.message}


def over_grpc(ask, body):
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{ask['port']}", options) as channel:
        # The bytes go as they are: what is sent need not be a message. Every signal's answer has one field.
        call = channel.unary_unary(
            ask["path"],
            request_serializer=lambda body: body,
            response_deserializer=logs_service_pb2.ExportLogsServiceResponse.FromString,
        )
        try:
            answer = call(body, compression=GRPC_PACK[ask["compress"]], timeout=30)
        except grpc.RpcError as error:
            details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
            kinds = [detail.type_url for detail in status_pb2.Status.FromString(details).details]
            has_retry_info = any(error_details_pb2.RetryInfo.DESCRIPTOR.full_name in kind for kind in kinds)
            return {
                "status": error.code().value[0],
                "message": error.details(),
                "is_partial": False,
                "has_retry_info": has_retry_info,
            }
    is_partial = answer.HasField("partial_success")
    return {"status": 0, "message": "", "is_partial": is_partial, "has_retry_info": False}


for line in sys.stdin:
    asked = json.loads(line)
    content = base64.b64decode(asked["body"]) + bytes(asked["pad"])
    say = over_http(asked, content) if asked["to"] == "http" else over_grpc(asked, content)
    print(json.dumps(say), flush=True)
