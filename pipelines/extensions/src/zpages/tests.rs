//! The pages, over real sockets, of a collector whose state is made up.

use std::sync::Arc;

use component::spans::Spans;
use component::status::{ComponentStatus, GateInfo, PipelineInfo};
use component::testing::{build, problems};
use config::Node;
use tokio_util::sync::DropGuard;

use super::*;
use crate::testing::get;

async fn serve(json: &str, host: &Host) -> (String, DropGuard) {
    let node: Node = serde_json::from_str(json).unwrap();
    let mut config: ZPagesConfig = Section::new("", &node).decode().unwrap();
    config.server.endpoint = "127.0.0.1:0".to_owned();
    let bound = Bound::open(&config.server, "zpages", host).await.unwrap();
    let (address, stop) = (bound.address(), CancellationToken::new());
    let shown = Shown::new(host.clone(), "1.2.3", config.expvar.enabled);
    tokio::spawn(bound.run(shown, stop.clone()));
    (address, stop.drop_guard())
}

fn host() -> Host {
    let host = Host::detached();
    let state = host.state();
    let list = |ids: &[&str]| ids.iter().map(|id| id.to_string()).collect();
    let pipeline = PipelineInfo {
        id: "traces/gpu".to_owned(),
        receivers: list(&["otlp", "forward"]),
        processors: list(&["memory_limiter", "batch"]),
        exporters: list(&["otlp_grpc/<x>"]),
    };
    state.describe(vec![pipeline], list(&["health_check", "zpages"]));
    for (name, status) in [
        (r#""otlp" receiver"#, ComponentStatus::Ok),
        (r#""forward" connector of logs to traces"#, ComponentStatus::Ok),
        (r#""memory_limiter" processor of pipeline traces/gpu"#, ComponentStatus::Ok),
        (r#""batch" processor of pipeline traces/gpu"#, ComponentStatus::Starting),
        (r#""otlp_grpc/<x>" exporter"#, ComponentStatus::RecoverableError("refused by <backend>".to_owned())),
        (r#""health_check" extension"#, ComponentStatus::PermanentError("gone".to_owned())),
        (r#""zpages" extension"#, ComponentStatus::Ok),
    ] {
        state.report(name, status);
    }
    state.set_gates(vec![GateInfo {
        id: "service.profilesSupport".to_owned(),
        is_on: true,
        stage: "Alpha".to_owned(),
        description: "Allows profiles.".to_owned(),
    }]);
    state.set_ready(true);
    host
}

/// Returns the visible text, one line per element.
fn text(html: &str) -> Vec<String> {
    let body = html.split_once("</nav>").unwrap().1;
    let texts = body.split('<').filter_map(|tag| tag.split_once('>')).map(|(_, text)| text.trim());
    texts.filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

/// Returns the texts of a page.
async fn page(host: &Host, path: &str) -> Vec<String> {
    let (address, _running) = serve("{}", host).await;
    let answer = get(&address, path, "").await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    assert!(answer.head.contains("content-type: text/html; charset=utf-8"), "{}", answer.head);
    text(&answer.body)
}

#[tokio::test]
async fn the_service_page_lists_failing_components_first() {
    let page = page(&host(), "/debug/servicez").await;
    let after = |what: &str| page.iter().position(|text| text == what).map(|at| page[at + 1].clone());
    assert_eq!(after("Version").as_deref(), Some("1.2.3"));
    assert!(after("Started").unwrap().ends_with("UTC (0s ago)"), "{page:?}");
    assert!(after("Ready").unwrap().starts_with("since 20"), "{page:?}");
    let place = |what: &str| page.iter().position(|text| text.contains(what)).unwrap();
    assert!(place("permanent error: gone") < place("&quot;otlp&quot; receiver"), "{page:?}");
}

#[tokio::test]
async fn a_pipeline_shows_the_status_of_each_component() {
    assert_eq!(
        page(&host(), "/debug/pipelinez").await,
        [
            "Pipelines",
            "traces/gpu",
            "otlp",
            "receiver",
            "OK",
            "forward",
            "connector",
            "OK",
            "&rarr;",
            "memory_limiter",
            "processor",
            "OK",
            "&rarr;",
            "batch",
            "processor",
            "starting",
            "&rarr;",
            "otlp_grpc/&lt;x&gt;",
            "exporter",
            "recoverable error: refused by &lt;backend&gt;",
        ]
    );
    assert_eq!(page(&Host::detached(), "/debug/pipelinez").await, ["Pipelines", "There are no pipelines."]);
}

#[tokio::test]
async fn extensions_and_gates_are_listed() {
    assert_eq!(
        page(&host(), "/debug/extensionz").await,
        ["Extensions", "Extension", "Status", "health_check", "permanent error: gone", "zpages", "OK"]
    );
    let features = page(&host(), "/debug/featurez").await;
    assert_eq!(features[5..], ["service.profilesSupport", "on", "Alpha", "Allows profiles."]);
}

/// Ends a span of that name.
fn span(spans: &Arc<Spans>, name: &str, error: Option<&str>) {
    let open = spans.begin(&Arc::from(name)).unwrap();
    open.end(Vec::new(), error.map(str::to_owned));
}

#[tokio::test]
async fn spans_are_shown_by_name_and_kind() {
    let host = host();
    let (address, running) = serve("{}", &host).await;
    let none = text(&get(&address, "/debug/tracez", "").await.body);
    assert_eq!(none, ["Spans", "No spans were recorded yet."]);
    span(host.spans(), "exporter/x/traces", Some("no <route>"));
    let open = host.spans().begin(&Arc::from("exporter/x/traces")).unwrap();
    let html = get(&address, "/debug/tracez", "").await.body;
    let names: Vec<String> = text(&html);
    assert_eq!(names[1..5], ["Name", "Running", "≥ 0s", "≥ 10µs"]);
    let row = names.iter().position(|text| text == "exporter/x/traces").unwrap();
    assert_eq!(names[row + 1..], ["1", "0", "0", "0", "0", "0", "0", "0", "0", "0", "1"]);
    let link = html.split('"').find(|part| part.contains("ztype=2")).unwrap().replace("&amp;", "&");
    let failed = text(&get(&address, &format!("/debug/tracez{link}"), "").await.body);
    assert!(failed.contains(&"exporter/x/traces: failed".to_owned()), "{failed:?}");
    assert!(failed.contains(&"no &lt;route&gt;".to_owned()), "{failed:?}");
    let running_link = "/debug/tracez?zspanname=exporter%2Fx%2Ftraces&ztype=0";
    let now = text(&get(&address, running_link, "").await.body);
    assert!(now.contains(&"exporter/x/traces: running".to_owned()), "{now:?}");
    for odd in ["?zspanname=nothing&ztype=2", "?ztype=9", "?zspanname=x&ztype=1&zlatencybucket=99", "?%%%"] {
        assert_eq!(get(&address, &format!("/debug/tracez{odd}"), "").await.status, 200, "{odd}");
    }
    drop(open);
    assert!(host.spans().is_on());
    drop(running);
}

#[tokio::test]
async fn spans_are_recorded_only_while_the_extension_runs() {
    let host = Host::detached();
    let stop = CancellationToken::new();
    let extension = build(&FACTORY, r#"{"endpoint": "127.0.0.1:0"}"#).unwrap();
    let (_, running) = extension.start(&host, stop.clone()).await.unwrap();
    assert!(host.spans().is_on());
    stop.cancel();
    running.await;
    assert!(!host.spans().is_on());
}

#[tokio::test]
async fn variables_are_served_only_if_enabled() {
    let (address, _running) = serve(r#"{"expvar": {"enabled": true}}"#, &host()).await;
    let vars: serde_json::Value =
        serde_json::from_str(&get(&address, "/debug/expvarz", "").await.body).unwrap();
    assert_eq!(vars["process"]["pid"], std::process::id());
    assert_eq!(vars["cmdline"].as_array().unwrap().len(), 1, "arguments may hold secrets");
    let (address, _running) = serve("{}", &host()).await;
    assert_eq!(get(&address, "/debug/expvarz", "").await.status, 404);
}

#[tokio::test]
async fn other_paths_redirect_or_are_not_found() {
    let (address, _running) = serve("{}", &host()).await;
    for path in ["/", "/debug", "/debug/"] {
        let answer = get(&address, path, "").await;
        assert_eq!(answer.status, 302, "{path}");
        assert!(answer.head.contains("location: /debug/servicez"), "{}", answer.head);
    }
    let nowhere = get(&address, "/debug/x", "").await;
    assert_eq!((nowhere.status, nowhere.body.as_str()), (404, "404 page not found\n"));
}

#[test]
fn problems_have_the_collectors_words() {
    assert_eq!(
        problems(&FACTORY, r#"{"endpoint": ""}"#),
        ["x::endpoint: address \"\": missing port in address: expected host:port"]
    );
    for json in
        ["{}", "null", r#"{"endpoint": ":55679", "expvar": {"enabled": true}}"#, r#"{"expvar": null}"#]
    {
        assert!(build(&FACTORY, json).is_ok(), "{json}: {:?}", problems(&FACTORY, json));
    }
}
