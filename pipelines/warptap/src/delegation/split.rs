//! Divides a configuration between this collector and the child.
//!
//! Each pipeline is followed from its receivers to its exporters. Where the next component is on the other side, the
//! pipeline ends in a crossing, and continues on the other side. The first part of a pipeline on each side has the id of the pipeline,
//! since the settings of connectors refer to it.

use std::collections::BTreeSet;
use std::path::Path;

use component::ComponentId;
use config::{Entry, Node, Position, Problem, Value};
use serde_json::json;

use super::choose::Chosen;
use super::program::Program;
use super::{child_id, crossing, directory, metadata};
use crate::config::{ComponentKind, Configured, Pipeline, PipelineId, Sections};
use crate::graph::Bridge;

/// A divided configuration.
pub(super) struct Split {
    /// The configuration of this collector, without the extension that runs the child.
    pub(super) native: Node,
    /// The configuration of the child.
    pub(super) child: Node,
    /// The order in which data passes through both.
    pub(super) bridge: Bridge,
    /// What is lost at a crossing.
    pub(super) warnings: Vec<Problem>,
}

/// What the parts refer to.
pub(super) struct Places<'a> {
    /// The directory of the sockets.
    pub(super) directory: &'a Path,
    /// The type of the child's OTLP exporter, which has had two names.
    pub(super) exporter: &'static str,
    /// Whether the child has the extension that sets headers.
    pub(super) has_setter: bool,
}

impl<'a> Places<'a> {
    /// Returns the places in a directory, and those that a Collector has; without one, those of the latest.
    pub(super) fn of(directory: &'a Path, program: Option<&Program>) -> Self {
        let has_setter = |p: &Program| p.has(ComponentKind::Extension, metadata::SETTER);
        Places {
            directory,
            exporter: program.map_or("otlp_grpc", Program::otlp_exporter),
            has_setter: program.is_none_or(has_setter),
        }
    }
}

/// One of the two processes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Side {
    Native,
    Child,
}

impl Side {
    const BOTH: [Side; 2] = [Side::Child, Side::Native];

    fn other(self) -> Side {
        match self {
            Side::Native => Side::Child,
            Side::Child => Side::Native,
        }
    }
}

/// Values of both sides.
#[derive(Default)]
struct BySide<T>([T; 2]);

impl<T> std::ops::Index<Side> for BySide<T> {
    type Output = T;

    fn index(&self, side: Side) -> &T {
        &self.0[side as usize]
    }
}

impl<T> std::ops::IndexMut<Side> for BySide<T> {
    fn index_mut(&mut self, side: Side) -> &mut T {
        &mut self.0[side as usize]
    }
}

/// The configuration of one side so far.
#[derive(Default)]
struct Part {
    crossings: Vec<(ComponentKind, ComponentId, Node)>,
    pipelines: Vec<Entry>,
}

/// The beginning of a pipeline on one side, which is not complete yet.
#[derive(Default)]
struct Open {
    receivers: Vec<Node>,
    processors: Vec<Node>,
}

struct Splitter<'a> {
    chosen: &'a Chosen,
    sections: &'a Sections<'a>,
    places: &'a Places<'a>,
    /// Whether exporters of a side pass on headers of the request that data came with.
    passes_headers: BySide<bool>,
    parts: BySide<Part>,
    bridge: Bridge,
}

/// Divides a configuration without problems across its components.
pub(super) fn split(root: &Node, sections: &Sections<'_>, chosen: &Chosen, places: &Places<'_>) -> Split {
    let bridge = Bridge { extension: child_id(), inputs: Vec::new(), outputs: Vec::new() };
    let names = metadata::names(root);
    let passes_headers = BySide([!names.is_empty(), !names.is_empty() && places.has_setter]);
    let mut splitter =
        Splitter { chosen, sections, places, passes_headers, parts: BySide::default(), bridge };
    for pipeline in &sections.service.pipelines {
        splitter.divide(pipeline);
    }
    if splitter.parts[Side::Child].pipelines.is_empty() {
        splitter.add_idle_pipeline();
    }
    let Splitter { parts: BySide([native, child]), bridge, passes_headers, .. } = splitter;
    let (mut native, mut child) =
        (native_root(root, chosen, native), child_root(root, sections, chosen, child));
    for (side, root) in [(Side::Native, &mut native), (Side::Child, &mut child)] {
        if passes_headers[side] {
            // The extension passes on headers of requests.
            add_extension(root, metadata::SETTER_ID.to_owned(), metadata::setter(&names));
        }
    }
    let is_lost = !names.is_empty() && !bridge.outputs.is_empty() && !places.has_setter;
    let warnings = is_lost.then(|| lost_headers(root, &names)).into_iter().collect();
    Split { native, child, bridge, warnings }
}

impl Splitter<'_> {
    fn divide(&mut self, pipeline: &Pipeline) {
        let mut open = BySide::<Open>::default();
        for (side, receiver) in self.sides(pipeline, ComponentKind::Receiver) {
            open[side].receivers.push(receiver);
        }
        for (side, processor) in self.sides(pipeline, ComponentKind::Processor) {
            self.cross(pipeline, &mut open, side.other());
            open[side].processors.push(processor);
        }
        let mut ends = BySide::<Vec<Node>>::default();
        for (side, exporter) in self.sides(pipeline, ComponentKind::Exporter) {
            ends[side].push(exporter);
        }
        for side in Side::BOTH.into_iter().filter(|side| ends[*side].is_empty()) {
            self.cross(pipeline, &mut open, side);
        }
        self.end(pipeline, open, &ends);
    }

    /// Ends the open parts of a pipeline: each sends to the exporters of its side, and to those of the other side by a crossing.
    fn end(&mut self, pipeline: &Pipeline, mut open: BySide<Open>, ends: &BySide<Vec<Node>>) {
        let mut arriving = Vec::new();
        for side in Side::BOTH {
            if open[side].receivers.is_empty() {
                continue;
            }
            let mut exporters = ends[side].clone();
            if !ends[side.other()].is_empty() {
                let (exporter, receiver) = self.crossing(pipeline, side);
                exporters.push(exporter);
                arriving.push((side.other(), Open { receivers: vec![receiver], processors: Vec::new() }));
            }
            self.close(pipeline, side, std::mem::take(&mut open[side]), exporters);
        }
        for (side, open) in arriving {
            self.close(pipeline, side, open, ends[side].clone());
        }
    }

    /// Returns the components of a pipeline with their sides. A connector is a receiver and an exporter.
    fn sides(&self, pipeline: &Pipeline, kind: ComponentKind) -> Vec<(Side, Node)> {
        let side = |id: &ComponentId| {
            let is_connector =
                kind != ComponentKind::Processor && self.sections.has(ComponentKind::Connector, id);
            let kind = if is_connector { ComponentKind::Connector } else { kind };
            if self.chosen.is_delegated(kind, id) { Side::Child } else { Side::Native }
        };
        let references = pipeline.references(kind).iter();
        references.map(|r| (side(&r.id), name(&r.id, r.position.clone()))).collect()
    }

    /// Ends the part of a pipeline that is open on `from`, if there is one, and continues it on the other side.
    fn cross(&mut self, pipeline: &Pipeline, open: &mut BySide<Open>, from: Side) {
        if open[from].receivers.is_empty() {
            return;
        }
        let (exporter, receiver) = self.crossing(pipeline, from);
        self.close(pipeline, from, std::mem::take(&mut open[from]), vec![exporter]);
        open[from.other()].receivers.push(receiver);
    }

    /// Adds a crossing from one side to the other; returns the names of its exporter and its receiver.
    fn crossing(&mut self, pipeline: &Pipeline, from: Side) -> (Node, Node) {
        let number = 1 + self.bridge.inputs.len() + self.bridge.outputs.len();
        let before = |ids: &[ComponentId]| ids.iter().filter(|id| of(id, pipeline)).count();
        let name_of = 1 + before(&self.bridge.inputs) + before(&self.bridge.outputs);
        let id = |kind: &str| {
            let id = format!("{kind}/{DELEGATED}/{}/{name_of}", pipeline.id);
            ComponentId::parse(&id).expect("the id of a pipeline is the name of a component")
        };
        let way = if from == Side::Native { directory::TO_CHILD } else { "from-" };
        let socket = format!("{way}{}-{number}.sock", pipeline.id.signal.name());
        let socket = self.places.directory.join(socket);
        let auth = self.passes_headers[from].then_some(metadata::SETTER_ID);
        let (kind, section) = match from {
            Side::Native => ("otlp_grpc", crossing::exporter(&socket, auth)),
            Side::Child => (self.places.exporter, crossing::child_exporter(&socket, auth)),
        };
        let (exporter, receiver) = (id(kind), id("otlp"));
        match from {
            Side::Native => self.bridge.inputs.push(exporter.clone()),
            Side::Child => self.bridge.outputs.push(receiver.clone()),
        }
        let names = [&exporter, &receiver].map(|id| name(id, Position::unknown()));
        self.parts[from].crossings.push((ComponentKind::Exporter, exporter, section));
        let arriving = (ComponentKind::Receiver, receiver, crossing::receiver(&socket));
        self.parts[from.other()].crossings.push(arriving);
        let [exporter, receiver] = names;
        (exporter, receiver)
    }

    /// Adds a pipeline without data to a child that has extensions only, since a Collector must have one.
    fn add_idle_pipeline(&mut self) {
        let id = |kind: &str| ComponentId::parse(&format!("{kind}/{DELEGATED}/idle")).expect("an id");
        let (exporter, receiver) = (id(self.places.exporter), id("otlp"));
        let socket = self.places.directory.join(format!("{}idle.sock", directory::TO_CHILD));
        let lists = [("receivers", &receiver), ("exporters", &exporter)];
        let entries =
            lists.map(|(key, id)| entry(key.to_owned(), sequence(vec![name(id, Position::unknown())])));
        let part = &mut self.parts[Side::Child];
        part.crossings.push((ComponentKind::Receiver, receiver, crossing::receiver(&socket)));
        part.crossings.push((ComponentKind::Exporter, exporter, crossing::child_exporter(&socket, None)));
        part.pipelines.push(entry(format!("traces/{DELEGATED}"), mapping(entries.into())));
    }

    /// Adds a part of a pipeline to one side.
    fn close(&mut self, pipeline: &Pipeline, side: Side, open: Open, exporters: Vec<Node>) {
        let earlier = self.parts[side].pipelines.iter().filter(|p| is_part(&p.key, &pipeline.id)).count();
        let lists =
            [("receivers", open.receivers), ("processors", open.processors), ("exporters", exporters)];
        let entries = lists.map(|(key, list)| entry(key.to_owned(), sequence(list))).into();
        let key = part_id(&pipeline.id, earlier);
        self.parts[side].pipelines.push(entry(key, Node::new(Value::Mapping(entries), Position::unknown())));
    }
}

/// The first part of the names of crossings.
const DELEGATED: &str = "delegated";

/// Returns whether a crossing is one of a pipeline.
fn of(crossing: &ComponentId, pipeline: &Pipeline) -> bool {
    let rest = crossing.name().strip_prefix(&format!("{DELEGATED}/{}/", pipeline.id));
    rest.is_some_and(|number| number.parse::<usize>().is_ok())
}

/// Returns the id of a further part of a pipeline; the first one has the id of the pipeline.
fn part_id(pipeline: &PipelineId, earlier: usize) -> String {
    match earlier {
        0 => pipeline.to_string(),
        _ => format!("{pipeline}{PART}{}", earlier + 1),
    }
}

const PART: &str = "/part-";

fn is_part(id: &str, pipeline: &PipelineId) -> bool {
    id.strip_prefix(&pipeline.to_string()).is_some_and(|rest| rest.is_empty() || rest.starts_with(PART))
}

fn name(id: &ComponentId, position: Position) -> Node {
    Node::new(Value::String(id.to_string()), position)
}

fn entry(key: String, value: Node) -> Entry {
    Entry { key, position: value.position.clone(), value }
}

fn sequence(items: Vec<Node>) -> Node {
    let position = items.first().map_or_else(Position::unknown, |first| first.position.clone());
    Node::new(Value::Sequence(items), position)
}

fn mapping(entries: Vec<Entry>) -> Node {
    Node::new(Value::Mapping(entries), Position::unknown())
}

/// Returns the configuration of this collector: the user's without what is delegated.
fn native_root(root: &Node, chosen: &Chosen, part: Part) -> Node {
    let mut native = root.clone();
    for kind in ComponentKind::ALL {
        let stays = |e: &Entry| !ComponentId::parse(&e.key).is_ok_and(|id| chosen.is_delegated(kind, &id));
        entries(&mut native, kind.section()).retain(stays);
    }
    for (kind, id, section) in part.crossings {
        entries(&mut native, kind.section()).push(entry(id.to_string(), section));
    }
    let service = value(&mut native, "service");
    *value(service, "pipelines") = mapping(part.pipelines);
    if let Value::Sequence(items) = &mut value(service, "extensions").value {
        items.retain(|item| !is_delegated_extension(item, chosen));
    }
    native
}

fn is_delegated_extension(item: &Node, chosen: &Chosen) -> bool {
    extension(item).is_some_and(|id| chosen.is_delegated(ComponentKind::Extension, &id))
}

fn extension(item: &Node) -> Option<ComponentId> {
    match &item.value {
        Value::String(text) => ComponentId::parse(text).ok(),
        _ => None,
    }
}

/// Returns the configuration of the child: what is delegated, and the crossings.
fn child_root(root: &Node, sections: &Sections<'_>, chosen: &Chosen, part: Part) -> Node {
    let mut child = mapping(Vec::new());
    let is_here = |c: &&Configured<'_>| chosen.is_in_child(c.kind, &c.id);
    for c in sections.components.iter().filter(is_here) {
        let own = Entry { key: c.id.to_string(), position: c.position.clone(), value: c.node.clone() };
        entries(&mut child, c.kind.section()).push(own);
    }
    for (kind, id, section) in part.crossings {
        entries(&mut child, kind.section()).push(entry(id.to_string(), section));
    }
    let extensions = sections.service.extensions.iter();
    let extensions = extensions.filter(|r| chosen.is_in_child(ComponentKind::Extension, &r.id));
    let extensions = extensions.map(|r| name(&r.id, r.position.clone())).collect();
    let service = vec![
        entry("extensions".to_owned(), sequence(extensions)),
        entry("pipelines".to_owned(), mapping(part.pipelines)),
        entry("telemetry".to_owned(), telemetry(root)),
    ];
    *value(&mut child, "service") = mapping(service);
    child
}

/// Adds an extension to the extensions, and in front of those of the service.
pub(super) fn add_extension(root: &mut Node, id: String, section: Node) {
    let own = Node::new(Value::String(id.clone()), Position::unknown());
    entries(root, ComponentKind::Extension.section()).push(entry(id, section));
    let list = value(value(root, "service"), "extensions");
    match &mut list.value {
        Value::Sequence(items) => items.insert(0, own),
        other => *other = Value::Sequence(vec![own]),
    }
}

fn lost_headers(root: &Node, names: &BTreeSet<String>) -> Problem {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let message = format!(
        "the headers {} of requests are lost where data comes back from the Collector, which lacks {}",
        names.join(", "),
        metadata::SETTER
    );
    Problem::new(root.position.clone(), "service::collector", message)
}

/// Returns the settings of the child's own telemetry: its log is read from standard error, and its metrics are sent to us.
fn telemetry(root: &Node) -> Node {
    let user =
        |section: &str, key: &str| root.get("service")?.get("telemetry")?.get(section)?.get(key).cloned();
    let mut logs = crossing::node(json!({
        "encoding": "json", "output_paths": ["stderr"], "error_output_paths": ["stderr"],
    }));
    // Readers that push send the metrics of the child to the same place. Those that are asked are ours.
    let pushing = match user("metrics", "readers").map(|readers| readers.value) {
        Some(Value::Sequence(all)) => {
            let all = all.into_iter().filter(|reader| reader.get("periodic").is_some());
            all.map(with_listed_headers).collect()
        }
        _ => Vec::new(),
    };
    let mut own_metrics = mapping(vec![entry(
        "readers".to_owned(),
        sequence([vec![super::metrics::reader()], pushing].concat()),
    )]);
    if let Some(level) = user("logs", "level") {
        *value(&mut logs, "level") = level;
    }
    if let Some(level) = user("metrics", "level") {
        *value(&mut own_metrics, "level") = level;
    }
    mapping(vec![entry("logs".to_owned(), logs), entry("metrics".to_owned(), own_metrics)])
}

/// Returns a reader whose headers are a list, as in the other reader: the Collector reads all of them in one of two versions of the format.
fn with_listed_headers(mut reader: Node) -> Node {
    let path = ["periodic", "exporter", "otlp", "headers"];
    let exists = path.iter().try_fold(&reader, |node, key| node.get(key)).is_some();
    let headers = exists.then(|| path.iter().fold(&mut reader, |node, key| value(node, key)));
    if let Some(Node { value: headers @ Value::Mapping(_), .. }) = headers {
        let Value::Mapping(entries) = std::mem::replace(headers, Value::Null) else { return reader };
        let item = |e: Entry| {
            let name = Node::new(Value::String(e.key), e.position);
            mapping(vec![entry("name".to_owned(), name), entry("value".to_owned(), e.value)])
        };
        *headers = Value::Sequence(entries.into_iter().map(item).collect());
    }
    reader
}

/// Returns the entries of a mapping in `node`, which is made if it is missing.
fn entries<'a>(node: &'a mut Node, key: &str) -> &'a mut Vec<Entry> {
    let section = value(node, key);
    if !matches!(section.value, Value::Mapping(_)) {
        section.value = Value::Mapping(Vec::new());
    }
    match &mut section.value {
        Value::Mapping(entries) => entries,
        _ => unreachable!("it is a mapping now"),
    }
}

/// Returns the value of a key in `node`, which is made if it is missing.
fn value<'a>(node: &'a mut Node, key: &str) -> &'a mut Node {
    if !matches!(node.value, Value::Mapping(_)) {
        node.value = Value::Mapping(Vec::new());
    }
    let Value::Mapping(entries) = &mut node.value else { unreachable!("it is a mapping now") };
    let at = entries.iter().position(|e| e.key == key).unwrap_or_else(|| {
        let null = Node::new(Value::Null, Position::unknown());
        entries.push(entry(key.to_owned(), null));
        entries.len() - 1
    });
    &mut entries[at].value
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
