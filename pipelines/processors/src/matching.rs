//! Selection of items by the sections `include` and `exclude` of several processors.
//!
//! A section matches an item that has all its properties; of a list of names, one must match. A property that an item
//! does not have (a span's name for a log record) does not match. Unlike in the Collector, and as its documentation
//! describes, `resources` and `libraries` apply to metrics too.

use config::{Node, Problems};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use pdata::json::plain;
use pdata::{ItemRef, Origin};
use regex::RegexSet;

use crate::actions::any_value;

config::section! {
    /// The section `include` or `exclude`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct MatchConfig {
        /// Comparison of texts: `strict` or `regexp`.
        pub match_type: String,
        /// Cache of patterns.
        pub regexp: Option<RegexpConfig> => unused "patterns need no cache",
        /// Values of the resource attribute `service.name`, of spans.
        pub services: Vec<String>,
        /// Names of spans.
        pub span_names: Vec<String>,
        /// Kinds of spans, such as `SPAN_KIND_SERVER`.
        pub span_kinds: Vec<String>,
        /// Bodies of log records that are text.
        pub log_bodies: Vec<String>,
        /// Severity texts of log records.
        pub log_severity_texts: Vec<String>,
        /// Lowest severity of log records.
        pub log_severity_number: Option<SeverityConfig>,
        /// Names of metrics.
        pub metric_names: Vec<String>,
        /// Attributes of spans and log records, all of which must match.
        pub attributes: Vec<AttributeMatch>,
        /// Attributes of resources, all of which must match.
        pub resources: Vec<AttributeMatch>,
        /// Instrumentation scopes, all of which must match.
        pub libraries: Vec<LibraryConfig>,
    }

    /// The section `regexp`, the Collector's cache of matches.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RegexpConfig {
        /// Whether matches are cached.
        pub cacheenabled: bool,
        /// Largest number of cached matches.
        pub cachemaxnumentries: u32,
    }

    /// An attribute to match.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AttributeMatch {
        /// Key of the attribute.
        pub key: String,
        /// Value of the attribute. Unset matches any value.
        pub value: Option<Node>,
    }

    /// An instrumentation scope to match.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LibraryConfig {
        /// Name of the scope.
        pub name: String,
        /// Version of the scope. Unset matches any version.
        pub version: Option<String>,
    }

    /// A severity to match.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SeverityConfig {
        /// Lowest severity number.
        pub min: i32,
        /// Whether a record without a severity matches.
        pub match_undefined: bool,
    }
}

/// The items that both sections together select.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    include: Option<Matcher>,
    exclude: Option<Matcher>,
}

impl Selection {
    pub(crate) fn compile(
        include: Option<&MatchConfig>,
        exclude: Option<&MatchConfig>,
        problems: &mut Problems<'_>,
    ) -> Self {
        let include = include.and_then(|config| Matcher::compile("include", config, problems));
        let exclude = exclude.and_then(|config| Matcher::compile("exclude", config, problems));
        Selection { include, exclude }
    }

    /// Returns true if the item is included and not excluded.
    pub(crate) fn contains(&self, origin: Origin<'_>, item: ItemRef<'_>) -> bool {
        self.include.as_ref().is_none_or(|m| m.matches(origin, item))
            && !self.exclude.as_ref().is_some_and(|m| m.matches(origin, item))
    }
}

/// Returns the value of `service.name` as text.
fn service(origin: Origin<'_>) -> String {
    let name = origin.resource_attributes().iter().find(|a| a.key == "service.name");
    name.map_or_else(|| "<nil-service-name>".to_owned(), |a| plain::text(a.value.as_ref()))
}

/// A validated section: tests that must all hold.
#[derive(Clone, Debug)]
struct Matcher(Vec<Test>);

#[derive(Clone, Debug)]
enum Test {
    Service(Texts),
    SpanName(Texts),
    SpanKind(Texts),
    LogBody(Texts),
    LogSeverityText(Texts),
    LogSeverityNumber(SeverityConfig),
    MetricName(Texts),
    Attribute(AttributeTest),
    Resource(AttributeTest),
    Library { name: Texts, version: Option<Texts> },
}

impl Matcher {
    fn compile(key: &str, config: &MatchConfig, problems: &mut Problems<'_>) -> Option<Self> {
        let kind = match MatchType::parse(&config.match_type) {
            Ok(kind) => kind,
            Err(why) => {
                problems.add(&format!("{key}::match_type"), why);
                return None;
            }
        };
        let mut tests = Tests { key, kind, tests: Vec::new(), problems };
        tests.names("services", &config.services, Test::Service);
        tests.names("span_names", &config.span_names, Test::SpanName);
        tests.kinds(&config.span_kinds);
        tests.names("log_bodies", &config.log_bodies, Test::LogBody);
        tests.names("log_severity_texts", &config.log_severity_texts, Test::LogSeverityText);
        tests.tests.extend(config.log_severity_number.clone().map(Test::LogSeverityNumber));
        tests.names("metric_names", &config.metric_names, Test::MetricName);
        tests.attributes("attributes", &config.attributes, Test::Attribute);
        tests.attributes("resources", &config.resources, Test::Resource);
        tests.libraries(&config.libraries);
        let tests = tests.tests;
        let of_no_effect = MatchConfig {
            match_type: config.match_type.clone(),
            regexp: config.regexp.clone(),
            ..MatchConfig::default()
        };
        if *config == of_no_effect {
            problems.add(key, EMPTY_SECTION);
        }
        Some(Matcher(tests))
    }

    fn matches(&self, origin: Origin<'_>, item: ItemRef<'_>) -> bool {
        self.0.iter().all(|test| test.holds(origin, item))
    }
}

const EMPTY_SECTION: &str = "nothing is named to match: expected at least one of services, span_names, \
                             span_kinds, log_bodies, log_severity_texts, log_severity_number, metric_names, \
                             attributes, resources or libraries";

impl Test {
    fn holds(&self, origin: Origin<'_>, item: ItemRef<'_>) -> bool {
        match (self, item) {
            (Test::Service(names), _) => names.match_text(&service(origin)),
            (Test::SpanName(names), ItemRef::Span(span)) => names.match_text(&span.name),
            (Test::SpanKind(names), ItemRef::Span(span)) => names.match_text(span.kind().as_str_name()),
            (Test::LogBody(texts), ItemRef::LogRecord(record)) => {
                texts.match_text(&plain::text(record.body.as_ref()))
            }
            (Test::LogSeverityText(texts), ItemRef::LogRecord(record)) => {
                texts.match_text(&record.severity_text)
            }
            (Test::LogSeverityNumber(least), ItemRef::LogRecord(record)) => match record.severity_number {
                0 => least.match_undefined,
                number => number >= least.min,
            },
            (Test::MetricName(names), ItemRef::Metric(metric)) => names.match_text(&metric.name),
            (Test::Attribute(test), _) => test.holds(item.attributes()),
            (Test::Resource(test), _) => test.holds(origin.resource_attributes()),
            (Test::Library { name, version }, _) => {
                let scope = origin.scope.map_or(("", ""), |scope| (&scope.name, &scope.version));
                name.match_text(scope.0) && version.as_ref().is_none_or(|v| v.match_text(scope.1))
            }
            _ => false,
        }
    }
}

/// The tests of one section while they are compiled.
struct Tests<'a, 'p> {
    key: &'a str,
    kind: MatchType,
    tests: Vec<Test>,
    problems: &'a mut Problems<'p>,
}

impl Tests<'_, '_> {
    fn texts(&mut self, field: &str, texts: &[String]) -> Option<Texts> {
        let texts = Texts::compile(self.kind, texts);
        texts.map_err(|e| self.problems.add(&format!("{}::{field}", self.key), e)).ok()
    }

    fn names(&mut self, field: &str, names: &[String], test: fn(Texts) -> Test) {
        if names.is_empty() {
            return;
        }
        let names = self.texts(field, names);
        self.tests.extend(names.map(test));
    }

    fn kinds(&mut self, kinds: &[String]) {
        let unknown = kinds.iter().find(|kind| !SPAN_KINDS.contains(&kind.as_str()));
        if let (MatchType::Strict, Some(unknown)) = (self.kind, unknown) {
            let why = format!("unknown span kind {unknown:?}: expected one of {}", SPAN_KINDS.join(", "));
            self.problems.add(&format!("{}::span_kinds", self.key), why);
        }
        self.names("span_kinds", kinds, Test::SpanKind);
    }

    fn attributes(&mut self, field: &str, attributes: &[AttributeMatch], test: fn(AttributeTest) -> Test) {
        for (index, attribute) in attributes.iter().enumerate() {
            match AttributeTest::compile(self.kind, attribute) {
                Ok(compiled) => self.tests.push(test(compiled)),
                Err(e) => self.problems.add(&format!("{}::{field}[{index}]", self.key), e),
            }
        }
    }

    fn libraries(&mut self, libraries: &[LibraryConfig]) {
        for (index, library) in libraries.iter().enumerate() {
            let field = format!("libraries[{index}]");
            let name = self.texts(&format!("{field}::name"), std::slice::from_ref(&library.name));
            let version = library.version.clone();
            let version = version.and_then(|v| self.texts(&format!("{field}::version"), &[v]));
            self.tests.extend(name.map(|name| Test::Library { name, version }));
        }
    }
}

const SPAN_KINDS: [&str; 5] = [
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_CONSUMER",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_SERVER",
];

/// The comparison of texts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MatchType {
    Regexp,
    Strict,
}

impl MatchType {
    /// Parses the key `match_type`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "regexp" => Ok(MatchType::Regexp),
            "strict" => Ok(MatchType::Strict),
            wrong => Err(format!("unrecognized match_type: {wrong:?}, valid types are: [regexp strict]")),
        }
    }
}

/// Returns the last line of a pattern's error, without the picture above it.
pub(crate) fn pattern_error(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    format!("invalid pattern: {}", last.trim_start_matches("error: "))
}

/// Texts or patterns of which one must match.
#[derive(Clone, Debug)]
pub(crate) enum Texts {
    Strict(Vec<String>),
    Regexp(RegexSet),
}

impl Texts {
    pub(crate) fn compile(kind: MatchType, texts: &[String]) -> Result<Self, String> {
        match kind {
            MatchType::Strict => Ok(Texts::Strict(texts.to_vec())),
            MatchType::Regexp => RegexSet::new(texts).map(Texts::Regexp).map_err(|e| pattern_error(&e)),
        }
    }

    pub(crate) fn match_text(&self, text: &str) -> bool {
        match self {
            Texts::Strict(texts) => texts.iter().any(|t| t == text),
            Texts::Regexp(patterns) => patterns.is_match(text),
        }
    }
}

/// An attribute that must be present, with a value if one is given.
#[derive(Clone, Debug)]
struct AttributeTest {
    key: String,
    value: ValueTest,
}

#[derive(Clone, Debug)]
enum ValueTest {
    Any,
    Same(AnyValue),
    Pattern(Texts),
}

impl AttributeTest {
    fn compile(kind: MatchType, config: &AttributeMatch) -> Result<Self, String> {
        if config.key.is_empty() {
            return Err("can't have empty key in the list of attributes".to_owned());
        }
        let value = config.value.as_ref().map(any_value).transpose()?;
        let value = match (kind, value) {
            (_, None) => ValueTest::Any,
            (MatchType::Strict, Some(value)) => ValueTest::Same(value),
            (MatchType::Regexp, Some(AnyValue { value: Some(Value::StringValue(pattern)) })) => {
                ValueTest::Pattern(Texts::compile(kind, &[pattern])?)
            }
            (MatchType::Regexp, Some(other)) => {
                let (key, found) = (&config.key, plain::type_name(Some(&other)));
                return Err(format!("match_type=regexp for {key:?} only supports Str, but found {found}"));
            }
        };
        Ok(AttributeTest { key: config.key.clone(), value })
    }

    fn holds(&self, attributes: &[KeyValue]) -> bool {
        let Some(found) = attributes.iter().find(|a| a.key == self.key) else { return false };
        match &self.value {
            ValueTest::Any => true,
            ValueTest::Same(value) => found.value.as_ref() == Some(value),
            ValueTest::Pattern(pattern) => {
                let is_plain =
                    matches!(plain::type_name(found.value.as_ref()), "Str" | "Bool" | "Int" | "Double");
                is_plain && pattern.match_text(&plain::text(found.value.as_ref()))
            }
        }
    }
}
