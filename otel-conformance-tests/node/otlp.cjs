// OpenTelemetry's JavaScript as a peer: its SDK makes data, its transformer writes them as OTLP.
//
// First a line for each signal: {"signal", "json", "proto"}, the same request in both encodings, in base64.
// Then it answers lines {"signal", "encoding", "body"}, a response in base64, with what its transformer reads.

"use strict";

const readline = require("node:readline");

const { ROOT_CONTEXT, SpanKind, TraceFlags, ValueType, trace } = require("@opentelemetry/api");
const transformer = require("@opentelemetry/otlp-transformer");
const { resourceFromAttributes } = require("@opentelemetry/resources");
const { InMemoryLogRecordExporter, LoggerProvider, SimpleLogRecordProcessor } = require("@opentelemetry/sdk-logs");
const metrics = require("@opentelemetry/sdk-metrics");
const { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } = require("@opentelemetry/sdk-trace");

const resource = resourceFromAttributes({ "service.name": "trainer", ranks: [0, 1], big: 2 ** 40 });
const attributes = { text: "ü", whole: -7, part: 2.5, yes: true, list: ["a", "b"], none: "" };
const parent = {
  traceId: "5b8efff798038103d269b633813fc60c",
  spanId: "eee19b7ec3c1b174",
  traceFlags: TraceFlags.SAMPLED,
};
const inParent = trace.setSpanContext(ROOT_CONTEXT, parent);

function spans() {
  const kept = new InMemorySpanExporter();
  const provider = new TracerProvider({ resource, spanProcessors: [new SimpleSpanProcessor({ exporter: kept })] });
  const tracer = provider.getTracer("conformance", "1.2", { schemaUrl: "https://schema/2" });
  const links = [{ context: parent, attributes: { why: "because" } }];
  const span = tracer.startSpan("step", { kind: SpanKind.CLIENT, attributes, links }, inParent);
  span.addEvent("seen", { at: 3 });
  span.setStatus({ code: 2, message: "broke" });
  span.end();
  tracer.startSpan("root", { root: true }).end();
  return kept.getFinishedSpans();
}

async function points() {
  class Reader extends metrics.MetricReader {
    async onForceFlush() {}
    async onShutdown() {}
  }
  const reader = new Reader();
  const aggregation = { type: metrics.AggregationType.EXPONENTIAL_HISTOGRAM };
  const views = [{ instrumentName: "exponential", aggregation }];
  const provider = new metrics.MeterProvider({ resource, readers: [reader], views });
  const meter = provider.getMeter("conformance", "1.2", { schemaUrl: "https://schema/2" });
  meter.createCounter("whole", { unit: "1", description: "counts", valueType: ValueType.INT }).add(3, attributes);
  meter.createCounter("part").add(0.25);
  meter.createUpDownCounter("both").add(-2);
  meter.createGauge("level").record(1e300);
  const [buckets, exponential] = [meter.createHistogram("buckets"), meter.createHistogram("exponential")];
  for (const value of [0, 0.001, 1, 7, 1e9]) {
    buckets.record(value);
    exponential.record(value);
  }
  return (await reader.collect()).resourceMetrics;
}

function records() {
  const kept = new InMemoryLogRecordExporter();
  const provider = new LoggerProvider({ resource, processors: [new SimpleLogRecordProcessor({ exporter: kept })] });
  const logger = provider.getLogger("conformance", "1.2", { schemaUrl: "https://schema/2" });
  const body = { nested: [1, "b", { deep: new Uint8Array([0, 255]) }] };
  logger.emit({ timestamp: 1, severityNumber: 15, severityText: "W", body, attributes, context: inParent, eventName: "e" });
  logger.emit({ timestamp: 2, observedTimestamp: 3, body: "plain" });
  return kept.getFinishedLogRecords();
}

const SERIALIZERS = {
  logs: [transformer.JsonLogsSerializer, transformer.ProtobufLogsSerializer],
  metrics: [transformer.JsonMetricsSerializer, transformer.ProtobufMetricsSerializer],
  traces: [transformer.JsonTraceSerializer, transformer.ProtobufTraceSerializer],
};

async function main() {
  const made = { logs: records(), metrics: await points(), traces: spans() };
  for (const [signal, data] of Object.entries(made)) {
    const [json, proto] = SERIALIZERS[signal].map((one) => Buffer.from(one.serializeRequest(data)).toString("base64"));
    console.log(JSON.stringify({ signal, json, proto }));
  }
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { signal, encoding, body } = JSON.parse(line);
    const serializer = SERIALIZERS[signal][encoding === "json" ? 0 : 1];
    const read = serializer.deserializeResponse(new Uint8Array(Buffer.from(body, "base64")));
    console.log(JSON.stringify(read, (_, value) => (typeof value === "bigint" ? Number(value) : value)));
  }
}

main();
