//! Checks across the parts of a configuration: it has pipelines, and they refer to configured components. The
//! messages are the Collector's.

use config::{Node, Position, Problem, Value, nearest};
use pdata::Signal;

use super::gates::{self, Gates};
use super::sections::{ComponentKind, Sections};
use super::service::{Pipeline, Reference};

/// Returns all problems.
pub(super) fn check(root: &Node, sections: &Sections<'_>, gates: &Gates) -> Vec<Problem> {
    if ComponentKind::ALL.iter().all(|kind| is_empty(root, *kind)) {
        return vec![at(root, "", "empty configuration file")];
    }
    let mut problems = Vec::new();
    if !gates.is_on(gates::NO_PIPELINES) {
        require_pipelines(root, &mut problems);
    }
    for reference in &sections.service.extensions {
        check_reference(sections, ComponentKind::Extension, reference, "service::extensions", &mut problems);
    }
    for pipeline in &sections.service.pipelines {
        check_pipeline(root, sections, pipeline, &mut problems);
        if pipeline.id.signal == Signal::Profiles && !gates.is_on(gates::PROFILES) {
            let message = format!(
                "pipeline \"{}\": profiling signal support is at alpha level, gated under the {:?} feature gate",
                pipeline.id,
                gates::PROFILES
            );
            problems.push(Problem::new(position(root, pipeline), "service::pipelines", message));
        }
    }
    problems
}

fn require_pipelines(root: &Node, problems: &mut Vec<Problem>) {
    for (kind, noun) in [(ComponentKind::Receiver, "receiver"), (ComponentKind::Exporter, "exporter")] {
        if is_empty(root, kind) {
            problems.push(at(root, "", &format!("no {noun} configuration specified in config")));
        }
    }
    if root.get("service").and_then(|s| s.get("pipelines")).is_none_or(|p| p.entries().is_empty()) {
        let service = root.get("service").unwrap_or(root);
        problems.push(at(service, "service::pipelines", "service must have at least one pipeline"));
    }
}

/// Returns whether a section has no components. A section that is not a mapping is reported elsewhere.
fn is_empty(root: &Node, kind: ComponentKind) -> bool {
    let is_bare = |node: &Node| node.is_null() || node.value == Value::Mapping(Vec::new());
    root.get(kind.section()).is_none_or(is_bare)
}

fn at(node: &Node, path: &str, message: &str) -> Problem {
    Problem::new(node.position.clone(), path, message)
}

fn check_pipeline(root: &Node, sections: &Sections<'_>, pipeline: &Pipeline, problems: &mut Vec<Problem>) {
    for kind in [ComponentKind::Receiver, ComponentKind::Exporter] {
        // A list of invalid ids is not empty; these ids have been reported.
        if pipeline.references(kind).is_empty() && !has_items(root, pipeline, kind) {
            let message = format!("must have at least one {}", kind.noun());
            problems.push(Problem::new(position(root, pipeline), pipeline.path.clone(), message));
        }
    }
    for (index, reference) in pipeline.processors.iter().enumerate() {
        if pipeline.processors[..index].iter().any(|earlier| earlier.id == reference.id) {
            let message = format!("references processor \"{}\" multiple times", reference.id);
            problems.push(Problem::new(reference.position.clone(), pipeline.path.clone(), message));
        }
    }
    for kind in [ComponentKind::Receiver, ComponentKind::Processor, ComponentKind::Exporter] {
        for reference in pipeline.references(kind) {
            check_reference(sections, kind, reference, &pipeline.path, problems);
        }
    }
}

/// Returns the body of a pipeline in the tree.
fn body<'a>(root: &'a Node, pipeline: &Pipeline) -> Option<&'a Node> {
    let key = pipeline.path.strip_prefix("service::pipelines::")?;
    root.get("service")?.get("pipelines")?.get(key)
}

fn has_items(root: &Node, pipeline: &Pipeline, kind: ComponentKind) -> bool {
    let list = body(root, pipeline).and_then(|body| body.get(kind.section()));
    list.is_some_and(|list| !list.is_null() && list.value != Value::Sequence(Vec::new()))
}

fn position(root: &Node, pipeline: &Pipeline) -> Position {
    body(root, pipeline).unwrap_or(root).position.clone()
}

fn check_reference(
    sections: &Sections<'_>,
    kind: ComponentKind,
    reference: &Reference,
    path: &str,
    problems: &mut Vec<Problem>,
) {
    // A connector can be a receiver or an exporter.
    if sections.has(kind, &reference.id) || sections.has(ComponentKind::Connector, &reference.id) {
        return;
    }
    let id = reference.id.to_string();
    let message = format!("references {} \"{id}\" which is not configured", kind.noun());
    let mut problem = Problem::new(reference.position.clone(), path, message);
    let configured: Vec<String> = sections.of(kind).map(|c| c.id.to_string()).collect();
    problem.nearest.extend(nearest(&id, configured.iter().map(String::as_str)).map(str::to_owned));
    problems.push(problem);
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
