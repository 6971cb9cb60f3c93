//! Pipelines drawn as rows of boxes: receivers, processors in order, exporters; each with its status.

use std::collections::BTreeMap;

use component::status::{PipelineInfo, Status};

use super::Shown;
use super::html::Text;
use super::overview::said;

pub(super) fn page(shown: &Shown) -> String {
    let state = shown.host.state();
    let (pipelines, components) = (state.pipelines(), state.components());
    match pipelines.as_slice() {
        [] => "<p class=\"dim\">There are no pipelines.</p>".to_owned(),
        pipelines => pipelines.iter().map(|pipeline| drawn(pipeline, &components)).collect(),
    }
}

fn drawn(pipeline: &PipelineInfo, components: &BTreeMap<String, Status>) -> String {
    let one = |id: &String, kind: &str| {
        let place = match kind {
            "processor" => format!(" of pipeline {}", pipeline.id),
            _ => String::new(),
        };
        component(id, kind, &place, components)
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

fn component(id: &str, kind: &str, place: &str, components: &BTreeMap<String, Status>) -> String {
    let own = components.get(&format!("\"{id}\" {kind}{place}"));
    let (status, kind) = match own {
        Some(status) => (Some(status), kind),
        // What stands at the end of a pipeline and is no component of that kind joins it to another.
        None => match connector(id, components) {
            Some(status) => (Some(status), "connector"),
            None => (None, kind),
        },
    };
    let (said, class) = said(status);
    let (id, said) = (Text(id), Text(&said));
    format!(
        "<div class=\"box {class}\"><span>{id}</span> <small class=\"dim\"><span>{kind}</span></small>\
         <small>{said}</small></div>"
    )
}

/// How a connector fares: of its instances, the one that fares worst is the one to know of.
fn connector<'a>(id: &str, components: &'a BTreeMap<String, Status>) -> Option<&'a Status> {
    let begin = format!("\"{id}\" connector");
    let own = components.iter().filter(|(name, _)| name.starts_with(&begin)).map(|(_, status)| status);
    own.reduce(|a, b| if *a == Status::Ok { b } else { a })
}
