//! The page that shows each pipeline as a row of boxes with the status of its components.

use std::collections::BTreeMap;

use component::status::{ComponentStatus, PipelineInfo};

use super::Shown;
use super::html::Text;
use super::overview::status_text;

pub(super) fn page(shown: &Shown) -> String {
    let state = shown.host.state();
    let (pipelines, components) = (state.pipelines(), state.components());
    match pipelines.as_slice() {
        [] => "<p class=\"dim\">There are no pipelines.</p>".to_owned(),
        pipelines => pipelines.iter().map(|pipeline| drawn(pipeline, &components)).collect(),
    }
}

fn drawn(pipeline: &PipelineInfo, components: &BTreeMap<String, ComponentStatus>) -> String {
    let one = |id: &String, kind: &str| {
        let suffix = match kind {
            "processor" => format!(" of pipeline {}", pipeline.id),
            _ => String::new(),
        };
        component(id, kind, &suffix, components)
    };
    let stack = |ids: &[String], kind: &str| {
        let boxes: String = ids.iter().map(|id| one(id, kind)).collect();
        format!("<div class=\"stack\">{boxes}</div>")
    };
    let mut steps = vec![stack(&pipeline.receivers, "receiver")];
    steps.extend(pipeline.processors.iter().map(|id| one(id, "processor")));
    steps.push(stack(&pipeline.exporters, "exporter"));
    let row = steps.join("<span class=\"dim\">&rarr;</span>");
    format!("<h2>{}</h2><div class=\"row\">{row}</div>\n", Text(&pipeline.id))
}

fn component(id: &str, kind: &str, suffix: &str, components: &BTreeMap<String, ComponentStatus>) -> String {
    let own = components.get(&format!("\"{id}\" {kind}{suffix}"));
    let (status, kind) = match own {
        Some(status) => (Some(status), kind),
        // A connector is listed as an exporter of one pipeline and as a receiver of another.
        None => match connector(id, components) {
            Some(status) => (Some(status), "connector"),
            None => (None, kind),
        },
    };
    let (text, class) = status_text(status);
    let (id, text) = (Text(id), Text(&text));
    format!(
        "<div class=\"box {class}\"><span>{id}</span> <small class=\"dim\"><span>{kind}</span></small>\
         <small>{text}</small></div>"
    )
}

/// Returns the worst status among the instances of a connector.
fn connector<'a>(id: &str, components: &'a BTreeMap<String, ComponentStatus>) -> Option<&'a ComponentStatus> {
    let begin = format!("\"{id}\" connector");
    let own = components.iter().filter(|(name, _)| name.starts_with(&begin)).map(|(_, status)| status);
    own.reduce(|a, b| if *a == ComponentStatus::Ok { b } else { a })
}
