//! The fields of each OTLP message of opentelemetry-proto 1.11, by field number.
//!
//! A field that is not listed is skipped, as the decoder does.

/// The type of a field.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A field that is not in the schema.
    Unknown,
    /// `bool`, `int`, `uint`, `sint`, enums.
    Varint,
    /// `repeated` of those, packed or not.
    Varints,
    /// A field of type `fixed32`.
    Fixed32,
    /// `fixed64`, `sfixed64`, `double`.
    Fixed64,
    /// `repeated` of those, packed or not.
    Fixed64s,
    /// `string`, which must be UTF-8.
    Text,
    /// A field of type `bytes`.
    Bytes,
    /// A nested message with this schema.
    Part(&'static Schema),
    /// A message of a `oneof`: the last kind of them in the bytes is valid.
    Choice(&'static Schema),
    /// A message that counts as an item.
    Item(&'static Schema),
}

/// The largest field number in use.
const FIELD_MAX: usize = 16;

/// The fields of a message.
pub(super) struct Schema([Kind; FIELD_MAX + 1]);

impl Schema {
    const fn of<const N: usize>(fields: [(usize, Kind); N]) -> Schema {
        let mut all = [Kind::Unknown; FIELD_MAX + 1];
        let mut index = 0;
        while index < N {
            all[fields[index].0] = fields[index].1;
            index += 1;
        }
        Schema(all)
    }

    pub(super) fn kind(&self, field: u64) -> Kind {
        usize::try_from(field).ok().and_then(|f| self.0.get(f)).copied().unwrap_or(Kind::Unknown)
    }
}

use Kind::{Bytes, Choice, Fixed32, Fixed64, Fixed64s, Item, Part, Text, Varint, Varints};

pub(super) static LOGS: Schema = Schema::of([(1, Part(&RESOURCE_LOGS))]);
pub(super) static METRICS: Schema = Schema::of([(1, Part(&RESOURCE_METRICS))]);
pub(super) static TRACES: Schema = Schema::of([(1, Part(&RESOURCE_SPANS))]);

// common.proto, resource.proto
static ANY_VALUE: Schema = Schema::of([
    (1, Text),
    (2, Varint),
    (3, Varint),
    (4, Fixed64),
    (5, Part(&ARRAY_VALUE)),
    (6, Part(&KEY_VALUE_LIST)),
    (7, Bytes),
    (8, Varint),
]);
static ARRAY_VALUE: Schema = Schema::of([(1, Part(&ANY_VALUE))]);
static KEY_VALUE_LIST: Schema = Schema::of([(1, Part(&KEY_VALUE))]);
static KEY_VALUE: Schema = Schema::of([(1, Text), (2, Part(&ANY_VALUE)), (3, Varint)]);
static SCOPE: Schema = Schema::of([(1, Text), (2, Text), (3, Part(&KEY_VALUE)), (4, Varint)]);
static ENTITY_REF: Schema = Schema::of([(1, Text), (2, Text), (3, Text), (4, Text)]);
static RESOURCE: Schema = Schema::of([(1, Part(&KEY_VALUE)), (2, Varint), (3, Part(&ENTITY_REF))]);

// logs.proto
static RESOURCE_LOGS: Schema = Schema::of([(1, Part(&RESOURCE)), (2, Part(&SCOPE_LOGS)), (3, Text)]);
static SCOPE_LOGS: Schema = Schema::of([(1, Part(&SCOPE)), (2, Item(&LOG_RECORD)), (3, Text)]);
static LOG_RECORD: Schema = Schema::of([
    (1, Fixed64),
    (2, Varint),
    (3, Text),
    (5, Part(&ANY_VALUE)),
    (6, Part(&KEY_VALUE)),
    (7, Varint),
    (8, Fixed32),
    (9, Bytes),
    (10, Bytes),
    (11, Fixed64),
    (12, Text),
]);

// trace.proto
static RESOURCE_SPANS: Schema = Schema::of([(1, Part(&RESOURCE)), (2, Part(&SCOPE_SPANS)), (3, Text)]);
static SCOPE_SPANS: Schema = Schema::of([(1, Part(&SCOPE)), (2, Item(&SPAN)), (3, Text)]);
static SPAN: Schema = Schema::of([
    (1, Bytes),
    (2, Bytes),
    (3, Text),
    (4, Bytes),
    (5, Text),
    (6, Varint),
    (7, Fixed64),
    (8, Fixed64),
    (9, Part(&KEY_VALUE)),
    (10, Varint),
    (11, Part(&SPAN_EVENT)),
    (12, Varint),
    (13, Part(&SPAN_LINK)),
    (14, Varint),
    (15, Part(&SPAN_STATUS)),
    (16, Fixed32),
]);
static SPAN_EVENT: Schema = Schema::of([(1, Fixed64), (2, Text), (3, Part(&KEY_VALUE)), (4, Varint)]);
static SPAN_LINK: Schema =
    Schema::of([(1, Bytes), (2, Bytes), (3, Text), (4, Part(&KEY_VALUE)), (5, Varint), (6, Fixed32)]);
static SPAN_STATUS: Schema = Schema::of([(2, Text), (3, Varint)]);

// metrics.proto
static RESOURCE_METRICS: Schema = Schema::of([(1, Part(&RESOURCE)), (2, Part(&SCOPE_METRICS)), (3, Text)]);
static SCOPE_METRICS: Schema = Schema::of([(1, Part(&SCOPE)), (2, Part(&METRIC)), (3, Text)]);
static METRIC: Schema = Schema::of([
    (1, Text),
    (2, Text),
    (3, Text),
    (5, Choice(&GAUGE)),
    (7, Choice(&SUM)),
    (9, Choice(&HISTOGRAM)),
    (10, Choice(&EXPONENTIAL_HISTOGRAM)),
    (11, Choice(&SUMMARY)),
    (12, Part(&KEY_VALUE)),
]);
static GAUGE: Schema = Schema::of([(1, Item(&NUMBER_POINT))]);
static SUM: Schema = Schema::of([(1, Item(&NUMBER_POINT)), (2, Varint), (3, Varint)]);
static HISTOGRAM: Schema = Schema::of([(1, Item(&HISTOGRAM_POINT)), (2, Varint)]);
static EXPONENTIAL_HISTOGRAM: Schema = Schema::of([(1, Item(&EXPONENTIAL_POINT)), (2, Varint)]);
static SUMMARY: Schema = Schema::of([(1, Item(&SUMMARY_POINT))]);
static NUMBER_POINT: Schema = Schema::of([
    (2, Fixed64),
    (3, Fixed64),
    (4, Fixed64),
    (5, Part(&EXEMPLAR)),
    (6, Fixed64),
    (7, Part(&KEY_VALUE)),
    (8, Varint),
]);
static HISTOGRAM_POINT: Schema = Schema::of([
    (2, Fixed64),
    (3, Fixed64),
    (4, Fixed64),
    (5, Fixed64),
    (6, Fixed64s),
    (7, Fixed64s),
    (8, Part(&EXEMPLAR)),
    (9, Part(&KEY_VALUE)),
    (10, Varint),
    (11, Fixed64),
    (12, Fixed64),
]);
static EXPONENTIAL_POINT: Schema = Schema::of([
    (1, Part(&KEY_VALUE)),
    (2, Fixed64),
    (3, Fixed64),
    (4, Fixed64),
    (5, Fixed64),
    (6, Varint),
    (7, Fixed64),
    (8, Part(&BUCKETS)),
    (9, Part(&BUCKETS)),
    (10, Varint),
    (11, Part(&EXEMPLAR)),
    (12, Fixed64),
    (13, Fixed64),
    (14, Fixed64),
]);
static BUCKETS: Schema = Schema::of([(1, Varint), (2, Varints)]);
static SUMMARY_POINT: Schema = Schema::of([
    (2, Fixed64),
    (3, Fixed64),
    (4, Fixed64),
    (5, Fixed64),
    (6, Part(&QUANTILE)),
    (7, Part(&KEY_VALUE)),
    (8, Varint),
]);
static QUANTILE: Schema = Schema::of([(1, Fixed64), (2, Fixed64)]);
static EXEMPLAR: Schema =
    Schema::of([(2, Fixed64), (3, Fixed64), (4, Bytes), (5, Bytes), (6, Fixed64), (7, Part(&KEY_VALUE))]);
