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
    /// `repeated` of those.
    Texts,
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
pub(super) struct Schema {
    fields: [Kind; FIELD_MAX + 1],
    /// Size of the decoded message without what its fields refer to, in bytes.
    pub(super) bytes: usize,
}

impl Schema {
    const fn of<const N: usize>(bytes: usize, fields: [(usize, Kind); N]) -> Schema {
        let mut all = [Kind::Unknown; FIELD_MAX + 1];
        let mut index = 0;
        while index < N {
            all[fields[index].0] = fields[index].1;
            index += 1;
        }
        Schema { fields: all, bytes }
    }

    pub(super) fn kind(&self, field: u64) -> Kind {
        usize::try_from(field).ok().and_then(|f| self.fields.get(f)).copied().unwrap_or(Kind::Unknown)
    }
}

use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, EntityRef, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
    Metric, MetricsData, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};
use opentelemetry_proto::tonic::profiles::v1development as profiles;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, TracesData};

use Kind::{Bytes, Choice, Fixed32, Fixed64, Fixed64s, Item, Part, Text, Texts, Varint, Varints};

pub(super) static LOGS: Schema = Schema::of(size_of::<LogsData>(), [(1, Part(&RESOURCE_LOGS))]);
pub(super) static METRICS: Schema = Schema::of(size_of::<MetricsData>(), [(1, Part(&RESOURCE_METRICS))]);
pub(super) static TRACES: Schema = Schema::of(size_of::<TracesData>(), [(1, Part(&RESOURCE_SPANS))]);

// common.proto, resource.proto
static ANY_VALUE: Schema = Schema::of(
    size_of::<AnyValue>(),
    [
        (1, Text),
        (2, Varint),
        (3, Varint),
        (4, Fixed64),
        (5, Part(&ARRAY_VALUE)),
        (6, Part(&KEY_VALUE_LIST)),
        (7, Bytes),
        (8, Varint),
    ],
);
static ARRAY_VALUE: Schema = Schema::of(size_of::<ArrayValue>(), [(1, Part(&ANY_VALUE))]);
static KEY_VALUE_LIST: Schema = Schema::of(size_of::<KeyValueList>(), [(1, Part(&KEY_VALUE))]);
static KEY_VALUE: Schema = Schema::of(size_of::<KeyValue>(), [(1, Text), (2, Part(&ANY_VALUE)), (3, Varint)]);
static SCOPE: Schema =
    Schema::of(size_of::<InstrumentationScope>(), [(1, Text), (2, Text), (3, Part(&KEY_VALUE)), (4, Varint)]);
static ENTITY_REF: Schema = Schema::of(size_of::<EntityRef>(), [(1, Text), (2, Text), (3, Text), (4, Text)]);
static RESOURCE: Schema =
    Schema::of(size_of::<Resource>(), [(1, Part(&KEY_VALUE)), (2, Varint), (3, Part(&ENTITY_REF))]);

// logs.proto
static RESOURCE_LOGS: Schema =
    Schema::of(size_of::<ResourceLogs>(), [(1, Part(&RESOURCE)), (2, Part(&SCOPE_LOGS)), (3, Text)]);
static SCOPE_LOGS: Schema =
    Schema::of(size_of::<ScopeLogs>(), [(1, Part(&SCOPE)), (2, Item(&LOG_RECORD)), (3, Text)]);
static LOG_RECORD: Schema = Schema::of(
    size_of::<LogRecord>(),
    [
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
    ],
);

// trace.proto
static RESOURCE_SPANS: Schema =
    Schema::of(size_of::<ResourceSpans>(), [(1, Part(&RESOURCE)), (2, Part(&SCOPE_SPANS)), (3, Text)]);
static SCOPE_SPANS: Schema =
    Schema::of(size_of::<ScopeSpans>(), [(1, Part(&SCOPE)), (2, Item(&SPAN)), (3, Text)]);
static SPAN: Schema = Schema::of(
    size_of::<Span>(),
    [
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
    ],
);
static SPAN_EVENT: Schema =
    Schema::of(size_of::<Event>(), [(1, Fixed64), (2, Text), (3, Part(&KEY_VALUE)), (4, Varint)]);
static SPAN_LINK: Schema = Schema::of(
    size_of::<Link>(),
    [(1, Bytes), (2, Bytes), (3, Text), (4, Part(&KEY_VALUE)), (5, Varint), (6, Fixed32)],
);
static SPAN_STATUS: Schema = Schema::of(size_of::<Status>(), [(2, Text), (3, Varint)]);

// metrics.proto
static RESOURCE_METRICS: Schema =
    Schema::of(size_of::<ResourceMetrics>(), [(1, Part(&RESOURCE)), (2, Part(&SCOPE_METRICS)), (3, Text)]);
static SCOPE_METRICS: Schema =
    Schema::of(size_of::<ScopeMetrics>(), [(1, Part(&SCOPE)), (2, Part(&METRIC)), (3, Text)]);
static METRIC: Schema = Schema::of(
    size_of::<Metric>(),
    [
        (1, Text),
        (2, Text),
        (3, Text),
        (5, Choice(&GAUGE)),
        (7, Choice(&SUM)),
        (9, Choice(&HISTOGRAM)),
        (10, Choice(&EXPONENTIAL_HISTOGRAM)),
        (11, Choice(&SUMMARY)),
        (12, Part(&KEY_VALUE)),
    ],
);
static GAUGE: Schema = Schema::of(size_of::<Gauge>(), [(1, Item(&NUMBER_POINT))]);
static SUM: Schema = Schema::of(size_of::<Sum>(), [(1, Item(&NUMBER_POINT)), (2, Varint), (3, Varint)]);
static HISTOGRAM: Schema = Schema::of(size_of::<Histogram>(), [(1, Item(&HISTOGRAM_POINT)), (2, Varint)]);
static EXPONENTIAL_HISTOGRAM: Schema =
    Schema::of(size_of::<ExponentialHistogram>(), [(1, Item(&EXPONENTIAL_POINT)), (2, Varint)]);
static SUMMARY: Schema = Schema::of(size_of::<Summary>(), [(1, Item(&SUMMARY_POINT))]);
static NUMBER_POINT: Schema = Schema::of(
    size_of::<NumberDataPoint>(),
    [
        (2, Fixed64),
        (3, Fixed64),
        (4, Fixed64),
        (5, Part(&EXEMPLAR)),
        (6, Fixed64),
        (7, Part(&KEY_VALUE)),
        (8, Varint),
    ],
);
static HISTOGRAM_POINT: Schema = Schema::of(
    size_of::<HistogramDataPoint>(),
    [
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
    ],
);
static EXPONENTIAL_POINT: Schema = Schema::of(
    size_of::<ExponentialHistogramDataPoint>(),
    [
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
    ],
);
static BUCKETS: Schema = Schema::of(size_of::<Buckets>(), [(1, Varint), (2, Varints)]);
static SUMMARY_POINT: Schema = Schema::of(
    size_of::<SummaryDataPoint>(),
    [
        (2, Fixed64),
        (3, Fixed64),
        (4, Fixed64),
        (5, Fixed64),
        (6, Part(&QUANTILE)),
        (7, Part(&KEY_VALUE)),
        (8, Varint),
    ],
);
static QUANTILE: Schema = Schema::of(size_of::<ValueAtQuantile>(), [(1, Fixed64), (2, Fixed64)]);
static EXEMPLAR: Schema = Schema::of(
    size_of::<Exemplar>(),
    [(2, Fixed64), (3, Fixed64), (4, Bytes), (5, Bytes), (6, Fixed64), (7, Part(&KEY_VALUE))],
);

// profiles.proto: only the fields of which there may be many, since the decoder checks the others.
pub(super) static PROFILES: Schema =
    Schema::of(size_of::<profiles::ProfilesData>(), [(1, Part(&RESOURCE_PROFILES)), (2, Part(&DICTIONARY))]);
static RESOURCE_PROFILES: Schema =
    Schema::of(size_of::<profiles::ResourceProfiles>(), [(1, Part(&RESOURCE)), (2, Part(&SCOPE_PROFILES))]);
static SCOPE_PROFILES: Schema =
    Schema::of(size_of::<profiles::ScopeProfiles>(), [(1, Part(&SCOPE)), (2, Part(&PROFILE))]);
static PROFILE: Schema = Schema::of(size_of::<profiles::Profile>(), [(2, Item(&SAMPLE)), (11, Varints)]);
static SAMPLE: Schema =
    Schema::of(size_of::<profiles::Sample>(), [(2, Varints), (4, Varints), (5, Fixed64s)]);
static DICTIONARY: Schema = Schema::of(
    size_of::<profiles::ProfilesDictionary>(),
    [
        (1, Part(&MAPPING)),
        (2, Part(&LOCATION)),
        (3, Part(&FUNCTION)),
        (4, Part(&PROFILE_LINK)),
        (5, Texts),
        (6, Part(&KEY_VALUE_AND_UNIT)),
        (7, Part(&STACK)),
    ],
);
static MAPPING: Schema = Schema::of(size_of::<profiles::Mapping>(), [(5, Varints)]);
static LOCATION: Schema = Schema::of(size_of::<profiles::Location>(), [(3, Part(&LINE)), (4, Varints)]);
static LINE: Schema = Schema::of(size_of::<profiles::Line>(), []);
static FUNCTION: Schema = Schema::of(size_of::<profiles::Function>(), []);
static PROFILE_LINK: Schema = Schema::of(size_of::<profiles::Link>(), []);
static KEY_VALUE_AND_UNIT: Schema =
    Schema::of(size_of::<profiles::KeyValueAndUnit>(), [(2, Part(&ANY_VALUE))]);
static STACK: Schema = Schema::of(size_of::<profiles::Stack>(), [(1, Varints)]);
