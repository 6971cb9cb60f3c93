"""An OTLP server on Google's protobuf and gRPC: writes a line of JSON for each request, and gives the answers of its argument.

The first line says the ports: {"grpc": N, "http": N}. Every other line is a request: when it came, from which
port, its signal, protocol, path, compression, headers and, in base64, the message as it was decoded here and
serialised again. An unknown field would be lost in a comparison, so a request that has one is refused.

The argument, a list in JSON, holds the answers to the first requests, in turn; all others are taken. An answer
is a failure ({"code": N} over gRPC, {"status": N} over HTTP; "after_ms": RetryInfo, "after": Retry-After, or
"after_date": that in seconds from now as a date) or a partial success ({"rejected": N, "message": "why"}).
"""

import base64
import concurrent.futures
import gzip
import http.server
import json
import sys
import threading
import time
from email.utils import formatdate

import grpc
from google.protobuf import any_pb2, json_format, unknown_fields
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

import otlp_ids

REQUESTS = {
    "logs": (logs_service_pb2.ExportLogsServiceRequest, logs_service_pb2.ExportLogsServiceResponse),
    "metrics": (metrics_service_pb2.ExportMetricsServiceRequest, metrics_service_pb2.ExportMetricsServiceResponse),
    "traces": (trace_service_pb2.ExportTraceServiceRequest, trace_service_pb2.ExportTraceServiceResponse),
}

REJECTED = {"logs": "rejected_log_records", "metrics": "rejected_data_points", "traces": "rejected_spans"}

OUT = threading.Lock()
SCRIPT = json.loads(sys.argv[1]) if len(sys.argv) > 1 else []


def say(line):
    with OUT:
        print(json.dumps(line), flush=True)


def next_answer():
    with OUT:
        return SCRIPT.pop(0) if SCRIPT else {}


def response(signal, answer):
    said = REQUESTS[signal][1]()
    if "rejected" in answer:
        setattr(said.partial_success, REJECTED[signal], answer["rejected"])
        said.partial_success.error_message = answer["message"]
    return said


def received(signal, protocol, path, port, compression, headers, message):
    if len(unknown_fields.UnknownFieldSet(message)) > 0:
        raise ValueError("the request has fields that this schema does not know")
    request = base64.b64encode(message.SerializeToString(deterministic=True)).decode()
    say(
        {
            "at_ns": time.monotonic_ns(),
            "port": port,
            "signal": signal,
            "protocol": protocol,
            "path": path,
            "compression": compression,
            "headers": headers,
            "request": request,
        }
    )


def servicer(base, signal):
    class Servicer(base):
        def Export(self, request, context):
            metadata = {pair.key: str(pair.value) for pair in context.invocation_metadata()}
            # The compression of a request is no metadata in Python's gRPC: it is handled below it.
            port = int(context.peer().rsplit(":", 1)[1])
            received(signal, "grpc", "", port, "", metadata, request)
            answer = next_answer()
            if "code" in answer:
                fail(context, answer)
            return response(signal, answer)

    return Servicer()


CODES = {code.value[0]: code for code in grpc.StatusCode}


def fail(context, answer):
    if "after_ms" in answer:
        info = error_details_pb2.RetryInfo()
        info.retry_delay.FromMilliseconds(answer["after_ms"])
        detail = any_pb2.Any()
        detail.Pack(info)
        status = status_pb2.Status(code=answer["code"], message="scripted", details=[detail])
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(CODES[answer["code"]], "scripted")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        signal = self.path.removeprefix("/v1/")
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers["content-length"]))
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        request = REQUESTS[signal][0]()
        content_type = headers["content-type"]
        is_json = content_type == "application/json"
        if is_json:
            json_format.ParseDict(otlp_ids.to_base64(json.loads(body)), request)
        else:
            request.ParseFromString(body)
        protocol = "http/json" if is_json else "http/protobuf"
        encoding = headers.get("content-encoding", "")
        received(signal, protocol, self.path, self.client_address[1], encoding, headers, request)
        answer = next_answer()
        status = answer.get("status", 200)
        said = response(signal, answer) if status == 200 else status_pb2.Status(code=2, message="scripted")
        body = json_format.MessageToJson(said).encode() if is_json else said.SerializeToString()
        self.send_response(status)
        if "after" in answer:
            self.send_header("Retry-After", str(answer["after"]))
        if "after_date" in answer:
            self.send_header("Retry-After", formatdate(time.time() + answer["after_date"], usegmt=True))
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    sys.stdout.reconfigure(line_buffering=True)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(
        servicer(logs_service_pb2_grpc.LogsServiceServicer, "logs"), server
    )
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(
        servicer(metrics_service_pb2_grpc.MetricsServiceServicer, "metrics"), server
    )
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(
        servicer(trace_service_pb2_grpc.TraceServiceServicer, "traces"), server
    )
    grpc_port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    over_http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    say({"grpc": grpc_port, "http": over_http.server_port})
    over_http.serve_forever()


main()
