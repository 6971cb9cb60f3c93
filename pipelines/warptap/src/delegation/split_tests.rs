//! How configurations are divided: the pipelines of both sides, in one line each.

use super::*;
use crate::config::testing::{flow, tree};
use crate::delegation::choose;

/// Divides a configuration in which types that begin with `go` are delegated.
fn divide(yaml: &str) -> Split {
    let root = tree(yaml);
    let sections = Sections::read(&root);
    assert_eq!(sections.problems, [], "{yaml}");
    let chosen = choose(&sections, |_, id| id.kind().starts_with("go"), |_, _| true);
    let places = Places { directory: Path::new("/d"), exporter: "otlp_grpc", has_setter: true };
    split(&root, &sections, &chosen, &places)
}

/// Returns the pipelines of a side as `id: receivers > processors > exporters`. Crossings are shown by their numbers.
fn pipelines(root: &Node) -> Vec<String> {
    let list = |pipeline: &Node, key: &str| {
        let Some(Value::Sequence(items)) = pipeline.get(key).map(|list| &list.value) else {
            return String::new();
        };
        let name = |item: &Node| match &item.value {
            Value::String(text) => {
                text.split_once("/delegated/").map_or(text.clone(), |(_, rest)| format!("<{rest}>"))
            }
            _ => String::new(),
        };
        items.iter().map(name).collect::<Vec<_>>().join(",")
    };
    let all = root.get("service").unwrap().get("pipelines").unwrap().entries().iter();
    all.map(|e| {
        let [from, through, to] = ["receivers", "processors", "exporters"].map(|key| list(&e.value, key));
        format!("{}: {from} > {through} > {to}", e.key)
    })
    .collect()
}

const COMPONENTS: &str = "receivers: {own: , go: }\nprocessors: {own: , own/b: , go: , go/b: }\nexporters: {own: , go: }\nconnectors: {goc: }\n";

/// Divides one pipeline of traces, and compares the pipelines of both sides.
#[track_caller]
fn check(receivers: &str, processors: &str, exporters: &str, native: &[&str], child: &[&str]) {
    let split = divide(&format!(
        "{COMPONENTS}service: {{pipelines: {{traces: {{receivers: [{receivers}], processors: [{processors}], exporters: [{exporters}]}}}}}}\n"
    ));
    assert_eq!(
        (pipelines(&split.native), pipelines(&split.child)),
        (native.iter().map(ToString::to_string).collect(), child.iter().map(ToString::to_string).collect(),)
    );
}

#[test]
fn pipelines_are_cut_where_the_next_component_is_on_the_other_side() {
    check("own", "own", "own", &["traces: own > own > own"], &["traces/delegated: <idle> >  > <idle>"]);
    check("go", "go", "go", &[], &["traces: go > go > go"]);
    check("own", "own", "go", &["traces: own > own > <traces/1>"], &["traces: <traces/1> >  > go"]);
    check("go", "own", "own", &["traces: <traces/1> > own > own"], &["traces: go >  > <traces/1>"]);
    check(
        "own",
        "own, go, go/b, own/b",
        "own",
        &["traces: own > own > <traces/1>", "traces/part-2: <traces/2> > own/b > own"],
        &["traces: <traces/1> > go,go/b > <traces/2>"],
    );
}

#[test]
fn receivers_of_both_sides_share_what_follows() {
    check("own, go", "own", "own", &["traces: own,<traces/1> > own > own"], &["traces: go >  > <traces/1>"]);
    check(
        "own, go",
        "go",
        "own",
        &["traces: own >  > <traces/1>", "traces/part-2: <traces/2> >  > own"],
        &["traces: go,<traces/1> > go > <traces/2>"],
    );
}

#[test]
fn exporters_of_both_sides_get_everything_once() {
    check("own", "own", "own, go", &["traces: own > own > own,<traces/1>"], &["traces: <traces/1> >  > go"]);
    check("go", "", "own, go", &["traces: <traces/1> >  > own"], &["traces: go >  > go,<traces/1>"]);
    check(
        "own, go",
        "",
        "own, go",
        &["traces: own >  > own,<traces/2>", "traces/part-2: <traces/1> >  > own"],
        &["traces: go >  > go,<traces/1>", "traces/part-2: <traces/2> >  > go"],
    );
    check("own, go", "", "own", &["traces: own,<traces/1> >  > own"], &["traces: go >  > <traces/1>"]);
}

#[test]
fn connectors_are_between_pipelines_of_the_child() {
    let split = divide(&format!(
        "{COMPONENTS}service:\n  pipelines:\n    traces: {{receivers: [own], exporters: [goc]}}\n    metrics/x: {{receivers: [goc], exporters: [own]}}\n"
    ));
    assert_eq!(pipelines(&split.child), ["traces: <traces/1> >  > goc", "metrics/x: goc >  > <metrics/x/1>"]);
    assert_eq!(
        pipelines(&split.native),
        ["traces: own >  > <traces/1>", "metrics/x: <metrics/x/1> >  > own"]
    );
    let shown = |ids: &[ComponentId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown(&split.bridge.inputs), ["otlp_grpc/delegated/traces/1"]);
    assert_eq!(shown(&split.bridge.outputs), ["otlp/delegated/metrics/x/1"]);
}

#[test]
fn each_side_has_the_sections_of_its_components() {
    let split = divide(
        "receivers: {go: {port: 1}}\nexporters: {own: {auth: {authenticator: a}}, go: {auth: {authenticator: b}}}\nextensions: {a: , b: , unused: }\n\
         service: {extensions: [a, b, unused], telemetry: {logs: {level: debug}}, pipelines: {logs: {receivers: [go], exporters: [own, go]}}}\n",
    );
    let keys = |root: &Node, section: &str| {
        let entries = root.get(section).map(Node::entries).unwrap_or_default();
        entries.iter().map(|e| e.key.clone()).collect::<Vec<_>>().join(" ")
    };
    let sections = |root: &Node| ["receivers", "exporters", "extensions"].map(|section| keys(root, section));
    assert_eq!(sections(&split.native), ["otlp/delegated/logs/1", "own", "a unused"]);
    assert_eq!(sections(&split.child), ["go", "go otlp_grpc/delegated/logs/1", "b"]);
    let extensions = |root: &Node| flow(root.get("service").unwrap().get("extensions").unwrap());
    assert_eq!(
        (extensions(&split.native), extensions(&split.child)),
        ("[\"a\", \"unused\"]".to_owned(), "[\"b\"]".to_owned())
    );
    let logs = split.child.get("service").unwrap().get("telemetry").unwrap().get("logs").unwrap();
    assert_eq!(flow(logs.get("level").unwrap()), "\"debug\"");
}

#[test]
fn headers_that_components_read_cross_by_name() {
    let split = divide(
        "receivers: {own: }\nprocessors: {go: {metadata_keys: [tenant]}}\nexporters: {own: }\n\
         service: {pipelines: {logs: {receivers: [own], processors: [go], exporters: [own]}}}\n",
    );
    for (root, exporter) in
        [(&split.native, "otlp_grpc/delegated/logs/1"), (&split.child, "otlp_grpc/delegated/logs/2")]
    {
        let auth = root.get("exporters").unwrap().get(exporter).unwrap().get("auth").unwrap();
        assert_eq!(flow(auth), "{authenticator: \"headers_setter/delegated\"}");
        let setter = root.get("extensions").unwrap().get("headers_setter/delegated").unwrap();
        assert_eq!(flow(setter), "{headers: [{from_context: \"tenant\", key: \"tenant\"}]}");
    }
}

#[test]
fn a_child_without_pipelines_of_the_user_has_an_idle_one() {
    let split = divide(
        "receivers: {own: }\nexporters: {own: }\nextensions: {go: }\n\
         service: {extensions: [go], pipelines: {logs: {receivers: [own], exporters: [own]}}}\n",
    );
    assert_eq!(pipelines(&split.child), ["traces/delegated: <idle> >  > <idle>"]);
    assert_eq!(pipelines(&split.native), ["logs: own >  > own"]);
    assert_eq!(split.bridge.inputs.len() + split.bridge.outputs.len(), 0);
}
