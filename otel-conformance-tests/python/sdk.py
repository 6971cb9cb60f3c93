"""Python's OpenTelemetry SDK as a sender: what its instruments made, by its own OTLP exporters.

With the arguments "send GRPC HTTP" every signal goes out by every exporter, and "spans GRPC HTTP" sends spans
alone; the arguments are ports. A line of JSON says each time what was exported, in base64, and what came of it.
With "temporality" nothing is sent: a line holds what the same instruments gave to two readers, one of which asks
for deltas.
"""

import base64
import json
import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import grpc

RESOURCE = Resource.create({"service.name": "trainer", "ranks": [0, 1], "host.name": "a"}, "https://schema/1")
ATTRIBUTES = {"text": "ü", "whole": -7, "part": 2.5, "yes": True, "list": ["a", "b"], "numbers": [1, 2]}


def spans():
    provider, kept = TracerProvider(resource=RESOURCE), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("conformance", "1.2", "https://schema/2", {"of": "scope"})
    with tracer.start_as_current_span("outer", attributes=ATTRIBUTES, kind=trace.SpanKind.SERVER) as outer:
        link = trace.Link(outer.get_span_context(), {"why": "because"})
        with tracer.start_as_current_span("inner", links=[link]) as inner:
            inner.add_event("seen", {"at": 3})
            inner.set_status(trace.Status(trace.StatusCode.ERROR, "broke"))
    return kept.get_finished_spans()


def meters(*readers):
    exponential = View(instrument_name="exponential", aggregation=ExponentialBucketHistogramAggregation())
    provider = MeterProvider(metric_readers=readers, resource=RESOURCE, views=[exponential])
    return provider.get_meter("conformance", "1.2", "https://schema/2")


def metrics():
    reader = InMemoryMetricReader()
    meter = meters(reader)
    with TracerProvider().get_tracer("x").start_as_current_span("measured"):
        meter.create_counter("whole", "1", "counts").add(3, ATTRIBUTES)
        meter.create_counter("part", "s").add(0.25)
        meter.create_up_down_counter("both").add(-2)
        meter.create_gauge("level").set(float("inf"))
        for value in [0, 0.001, 1, 7, 1e9]:
            meter.create_histogram("buckets", "s").record(value)
            meter.create_histogram("exponential", "s").record(value)
    return reader.get_metrics_data()


def logs():
    provider, kept = LoggerProvider(resource=RESOURCE), InMemoryLogRecordExporter()
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    logger = provider.get_logger("conformance", "1.2", "https://schema/2", {"of": "scope"})
    with TracerProvider().get_tracer("x").start_as_current_span("logged"):
        body = {"nested": [1, "b", {"deep": b"\x00\xff"}]}
        logger.emit(timestamp=1, severity_number=SeverityNumber.WARN3, severity_text="W", body=body, attributes=ATTRIBUTES, event_name="e")
    logger.emit(timestamp=2, observed_timestamp=3, body="plain")
    return kept.get_finished_logs()


def say(**line):
    print(json.dumps(line), flush=True)


def base64_of(message):
    return base64.b64encode(message.SerializeToString()).decode()


MAKE = {"traces": (spans, encode_spans), "metrics": (metrics, encode_metrics), "logs": (logs, encode_logs)}
GRPC = {"traces": GrpcSpans, "metrics": GrpcMetrics, "logs": GrpcLogs}
HTTP = {"traces": HttpSpans, "metrics": HttpMetrics, "logs": HttpLogs}


def exporters(signal, grpc_port, http_port):
    for compression in [grpc.Compression.NoCompression, grpc.Compression.Gzip]:
        yield GRPC[signal](endpoint=f"http://127.0.0.1:{grpc_port}", insecure=True, compression=compression)
    for compression in [Compression.NoCompression, Compression.Gzip, Compression.Deflate]:
        yield HTTP[signal](endpoint=f"http://127.0.0.1:{http_port}/v1/{signal}", compression=compression)


def send(signals, grpc_port, http_port):
    for signal in signals:
        make, encode = MAKE[signal]
        data = make()
        for exporter in exporters(signal, grpc_port, http_port):
            result = exporter.export(data)
            say(signal=signal, request=base64_of(encode(data)), result=result.name)
            exporter.shutdown()


def temporality():
    delta = AggregationTemporality.DELTA
    readers = [InMemoryMetricReader(), InMemoryMetricReader(preferred_temporality={Counter: delta, Histogram: delta})]
    meter = meters(*readers)
    counter, part, both = meter.create_counter("whole"), meter.create_counter("part"), meter.create_up_down_counter("both")
    buckets, exponential = meter.create_histogram("buckets"), meter.create_histogram("exponential")
    # What comes later is further apart, so that the exponential histogram has to become coarser.
    for values in [[1.0, 1.5, 2.0], [1.25, 3.0], [0.0, 100.0], [1e-6, 1e6, 5.0], [2.0]]:
        for value in values:
            counter.add(int(value) + 1, {"rank": 0})
            counter.add(2, {"rank": 1})
            part.add(value)
            both.add(-1)
            buckets.record(value)
            exponential.record(value)
        cumulative, delta = (base64_of(encode_metrics(reader.get_metrics_data())) for reader in readers)
        say(cumulative=cumulative, delta=delta)


if sys.argv[1] == "temporality":
    temporality()
else:
    send(["traces"] if sys.argv[1] == "spans" else MAKE, *sys.argv[2:4])
