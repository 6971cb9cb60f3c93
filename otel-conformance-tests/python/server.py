"""An OTLP server on Google's protobuf and gRPC: takes everything, and writes a line of JSON for each request.

The first line says the ports: {"grpc": N, "http": N}. Every other line is a request: its signal, protocol,
compression, headers and, in base64, the message as it was decoded here and serialised again. An unknown field
would be lost in a comparison, so a request that has one is refused.
"""

import base64
import concurrent.futures
import gzip
import http.server
import json
import sys
import threading

import grpc
from google.protobuf import json_format, unknown_fields
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

import otlp_ids

REQUESTS = {
    "logs": (logs_service_pb2.ExportLogsServiceRequest, logs_service_pb2.ExportLogsServiceResponse),
    "metrics": (metrics_service_pb2.ExportMetricsServiceRequest, metrics_service_pb2.ExportMetricsServiceResponse),
    "traces": (trace_service_pb2.ExportTraceServiceRequest, trace_service_pb2.ExportTraceServiceResponse),
}

OUT = threading.Lock()


def say(line):
    with OUT:
        print(json.dumps(line), flush=True)


def received(signal, protocol, compression, headers, message):
    if len(unknown_fields.UnknownFieldSet(message)) > 0:
        raise ValueError("the request has fields that this schema does not know")
    request = base64.b64encode(message.SerializeToString(deterministic=True)).decode()
    say(
        {
            "signal": signal,
            "protocol": protocol,
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
            received(signal, "grpc", "", metadata, request)
            return REQUESTS[signal][1]()

    return Servicer()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        signal = self.path.removeprefix("/v1/")
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers["content-length"]))
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        request, response = (kind() for kind in REQUESTS[signal])
        content_type = headers["content-type"]
        if content_type == "application/json":
            json_format.ParseDict(otlp_ids.to_base64(json.loads(body)), request)
            protocol, answer = "http/json", json_format.MessageToJson(response).encode()
        else:
            request.ParseFromString(body)
            protocol, answer = "http/protobuf", response.SerializeToString()
        received(signal, protocol, headers.get("content-encoding", ""), headers, request)
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

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
