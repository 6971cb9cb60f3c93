"""OTLP's JSON writes ids in hex, protobuf's own JSON mapping writes them in base64: the way between the two."""

import base64

IDS = {"traceId", "spanId", "parentSpanId"}


def to_base64(value):
    """A value of OTLP's JSON as protobuf's own mapping has it."""
    return convert(value, lambda text: base64.b64encode(bytes.fromhex(text)).decode())


def to_hex(value):
    """A value of protobuf's own mapping as OTLP's JSON has it."""
    return convert(value, lambda text: base64.b64decode(text).hex())


def convert(value, ids):
    if isinstance(value, list):
        return [convert(item, ids) for item in value]
    if isinstance(value, dict):
        return {
            key: ids(item) if key in IDS else convert(item, ids) for key, item in value.items()
        }
    return value
