//! The parsed registry: Weaver's groups, validated, and sorted by signal.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

/// Namespaces that are ours or shared with OBI. References to other namespaces are references to upstream.
const OURS: [&str; 4] = ["cuda.", "gpu.", "nccl.", "warptap."];

/// Prefixes of the names of the collector's own metrics, which follow the Collector's practice.
const OWN: [&str; 2] = ["otelcol_", "warptap_"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    groups: Vec<Group>,
}

/// A group: an attribute group, a metric, a span or an event.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub(super) id: String,
    #[serde(rename = "type")]
    kind: String,
    pub(super) brief: String,
    #[serde(default)]
    pub(super) note: String,
    #[serde(default)]
    pub(super) stability: String,
    #[serde(default, rename = "display_name")]
    _display_name: String,
    #[serde(default)]
    attributes: Vec<Entry>,
    metric_name: Option<String>,
    instrument: Option<String>,
    unit: Option<String>,
    span_kind: Option<String>,
    name: Option<String>,
}

/// A definition (`id`) or a reference (`ref`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Option<String>,
    #[serde(rename = "ref")]
    reference: Option<String>,
    #[serde(rename = "type")]
    kind: Option<Kind>,
    brief: Option<String>,
    #[serde(default)]
    note: String,
    stability: Option<String>,
    examples: Option<serde_yaml::Value>,
    requirement_level: Option<Level>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Kind {
    Simple(String),
    Enum { members: Vec<Member> },
}

/// A value of an enum attribute.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) value: String,
    pub(super) brief: String,
    #[expect(dead_code, reason = "Weaver asks for it, nothing is made of it")]
    stability: String,
}

/// The requirement level of an attribute: a word of Weaver, or a word with a condition.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Level {
    Plain(String),
    If(BTreeMap<String, String>),
}

/// An attribute that is defined here or upstream.
#[derive(Clone, Debug, Default)]
pub(super) struct Attribute {
    pub(super) kind: String,
    pub(super) brief: String,
    pub(super) note: String,
    pub(super) members: Vec<Member>,
    pub(super) is_upstream: bool,
}

/// An attribute of a signal.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) key: String,
    pub(super) level: Level,
    pub(super) brief: Option<String>,
}

/// A metric, span or event, or the resource.
#[derive(Clone, Debug)]
pub(super) struct Signal {
    pub(super) name: String,
    pub(super) group: Group,
    /// `counter`, `gauge` or `histogram`; the kind of a span; otherwise empty.
    pub(super) instrument: String,
    pub(super) unit: String,
    pub(super) attributes: Vec<Use>,
}

/// The registry, sorted by name.
#[derive(Debug, Default)]
pub(super) struct Registry {
    pub(super) attributes: BTreeMap<String, Attribute>,
    pub(super) metrics: BTreeMap<String, Signal>,
    /// The collector's own metrics.
    pub(super) own_metrics: BTreeMap<String, Signal>,
    pub(super) spans: BTreeMap<String, Signal>,
    pub(super) events: BTreeMap<String, Signal>,
    pub(super) resource: BTreeMap<String, Signal>,
}

impl Registry {
    /// Parses files, given as names and texts.
    pub(super) fn read(files: &[(String, String)]) -> anyhow::Result<Registry> {
        let mut registry = Registry::default();
        for (name, text) in files {
            let file: File = serde_yaml::from_str(text).with_context(|| name.clone())?;
            for group in file.groups {
                let id = group.id.clone();
                registry.add(group).with_context(|| format!("{name}: {id}"))?;
            }
        }
        registry.refer()?;
        Ok(registry)
    }

    fn add(&mut self, group: Group) -> anyhow::Result<()> {
        ensure!(!group.brief.is_empty(), "{}: a group needs a brief", group.id);
        match group.kind.as_str() {
            "attribute_group" if group.id.starts_with("resource.") => {
                insert(&mut self.resource, Signal::named("resource", group)?)
            }
            "attribute_group" => self.define(&group),
            "metric" if OWN.iter().any(|own| group.id.starts_with(&format!("metric.{own}"))) => {
                insert(&mut self.own_metrics, Signal::metric(group)?)
            }
            "metric" => insert(&mut self.metrics, Signal::metric(group)?),
            "span" => insert(&mut self.spans, Signal::span(group)?),
            "event" => insert(&mut self.events, Signal::event(group)?),
            other => bail!("{}: type {other:?}: expected attribute_group, metric, span or event", group.id),
        }
    }

    fn define(&mut self, group: &Group) -> anyhow::Result<()> {
        for entry in &group.attributes {
            let Some(key) = &entry.id else { bail!("{}: expected definitions only", group.id) };
            ensure!(OURS.iter().any(|o| key.starts_with(o)), "{key}: expected a namespace of {OURS:?}");
            let attribute = entry.define().with_context(|| key.clone())?;
            ensure!(self.attributes.insert(key.clone(), attribute).is_none(), "{key}: defined twice");
        }
        Ok(())
    }

    /// Adds rows for referenced upstream attributes; a reference to an undefined one is an error.
    fn refer(&mut self) -> anyhow::Result<()> {
        let signals = [&self.metrics, &self.spans, &self.events, &self.resource];
        let uses = signals.into_iter().flat_map(|s| s.values()).flat_map(|s| &s.attributes);
        let keys: Vec<String> = uses.map(|u| u.key.clone()).collect();
        for key in keys {
            let is_ours = OURS.iter().any(|o| key.starts_with(o));
            ensure!(
                !is_ours || self.attributes.contains_key(&key),
                "{key}: not defined here, nor by OpenTelemetry"
            );
            self.attributes
                .entry(key)
                .or_insert_with(|| Attribute { is_upstream: true, ..Attribute::default() });
        }
        Ok(())
    }
}

fn insert(into: &mut BTreeMap<String, Signal>, signal: Signal) -> anyhow::Result<()> {
    let name = signal.name.clone();
    ensure!(into.insert(name.clone(), signal).is_none(), "{name}: defined twice");
    Ok(())
}

impl Entry {
    fn define(&self) -> anyhow::Result<Attribute> {
        let kind = self.kind.clone().context("a definition needs a type")?;
        let brief = line(self.brief.as_deref().context("a definition needs a brief")?);
        ensure!(self.stability.is_some(), "a definition needs a stability");
        ensure!(matches!(kind, Kind::Enum { .. }) || self.examples.is_some(), "a definition needs examples");
        let (kind, members) = match kind {
            Kind::Simple(kind) => (kind, Vec::new()),
            Kind::Enum { members } => ("string".to_owned(), members),
        };
        Ok(Attribute { kind, brief, note: line(&self.note), members, is_upstream: false })
    }

    fn used(&self) -> anyhow::Result<Use> {
        let key = self.reference.clone().context("a signal refers to attributes, it defines none")?;
        let level = self.requirement_level.clone().unwrap_or(Level::Plain("recommended".to_owned()));
        Ok(Use { key, level, brief: self.brief.as_deref().map(line) })
    }
}

impl Signal {
    fn named(name: &str, group: Group) -> anyhow::Result<Signal> {
        let mut attributes = group.attributes.iter().map(Entry::used).collect::<anyhow::Result<Vec<_>>>()?;
        attributes.sort_by(|a, b| a.key.cmp(&b.key));
        let (instrument, unit) = (String::new(), String::new());
        Ok(Signal { name: name.to_owned(), instrument, unit, attributes, group })
    }

    fn metric(group: Group) -> anyhow::Result<Signal> {
        let name =
            group.metric_name.clone().with_context(|| format!("{}: a metric needs metric_name", group.id))?;
        ensure!(group.id == format!("metric.{name}"), "{}: expected the id metric.{name}", group.id);
        let mut signal = Signal::named(&name, group)?;
        signal.instrument = signal.group.instrument.clone().context("a metric needs an instrument")?;
        signal.unit = signal.group.unit.clone().context("a metric needs a unit")?;
        ensure!(!signal.group.stability.is_empty(), "a metric needs a stability");
        Ok(signal)
    }

    /// Returns the description of a metric. That of an own metric includes its stability, as in the Collector.
    pub(super) fn description(&self) -> String {
        let brief = line(&self.group.brief);
        match self.group.stability.as_str() {
            "alpha" => format!("{brief} [Alpha]"),
            _ if OWN.iter().any(|own| self.name.starts_with(own)) => format!("{brief} [Development]"),
            _ => brief,
        }
    }

    fn span(group: Group) -> anyhow::Result<Signal> {
        let name =
            group.id.strip_prefix("span.").context("expected an id that begins with span.")?.to_owned();
        let mut signal = Signal::named(&name, group)?;
        signal.instrument = signal.group.span_kind.clone().context("a span needs a span_kind")?;
        Ok(signal)
    }

    fn event(group: Group) -> anyhow::Result<Signal> {
        let name = group.name.clone().context("an event needs a name")?;
        ensure!(group.id == format!("event.{name}"), "{}: expected the id event.{name}", group.id);
        Signal::named(&name, group)
    }
}

impl Level {
    /// Returns Weaver's word for the level.
    pub(super) fn word(&self) -> &str {
        match self {
            Level::Plain(word) => word,
            Level::If(map) => map.keys().next().map_or("", String::as_str),
        }
    }

    /// Returns the condition, or an empty text.
    pub(super) fn condition(&self) -> &str {
        match self {
            Level::Plain(_) => "",
            Level::If(map) => map.values().next().map_or("", String::as_str),
        }
    }
}

/// Returns a text in one line.
pub(super) fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
