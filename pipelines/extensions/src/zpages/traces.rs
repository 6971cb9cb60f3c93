//! The collector's own spans by name: counts by latency, failures, and the latest spans of each kind.

use component::spans::{LATENCIES, Span, Summary, Which};
use config::GoDuration;

use super::Shown;
use transport::query::parameters;

use super::html::{Encoded, Text, readable, table};

pub(super) fn page(shown: &Shown, query: &str) -> String {
    let spans = shown.host.spans();
    let latest = selected(query).map(|(name, which)| {
        let latest = spans.latest(&name, which);
        samples(&name, which, latest.iter().map(AsRef::as_ref))
    });
    let note = match spans.left_out() {
        0 => String::new(),
        n => format!("<p class=\"warn\">{n} spans are not shown: there are too many names.</p>"),
    };
    format!("{}{note}{}", summaries(&spans.summaries()), latest.unwrap_or_default())
}

/// Parses which spans a query selects, with the parameters of the Collector's pages.
fn selected(query: &str) -> Option<(String, Which)> {
    let find = |name: &str| parameters(query).find(|(key, _)| key == name).map(|(_, value)| value);
    let which = match find("ztype")?.as_str() {
        "0" => Which::Running,
        "1" => Which::Latency(find("zlatencybucket")?.parse().ok()?),
        "2" => Which::Failed,
        _ => return None,
    };
    Some((find("zspanname")?, which))
}

fn query(name: &str, which: Which) -> String {
    let (kind, bucket) = match which {
        Which::Running => (0, 0),
        Which::Latency(bucket) => (1, bucket),
        Which::Failed => (2, 0),
    };
    format!("?zspanname={}&amp;ztype={kind}&amp;zlatencybucket={bucket}", Encoded(name))
}

fn from(bucket: usize) -> String {
    match LATENCIES.get(bucket) {
        Some(begin) => format!("{} and more", GoDuration(*begin)),
        None => "no such latency".to_owned(),
    }
}

fn summaries(summaries: &[Summary]) -> String {
    if summaries.is_empty() {
        return "<p class=\"dim\">No spans were recorded yet.</p>".to_owned();
    }
    let begins: Vec<String> = LATENCIES.iter().map(|begin| format!("≥ {}", GoDuration(*begin))).collect();
    let mut heads = vec!["Name", "Running"];
    heads.extend(begins.iter().map(String::as_str));
    heads.push("Failed");
    table("num", &heads, summaries.iter().map(summary))
}

fn summary(summary: &Summary) -> Vec<String> {
    let link = |count: u64, which| match count {
        0 => "<span class=\"dim\">0</span>".to_owned(),
        count => format!("<a href=\"{}\">{count}</a>", query(&summary.name, which)),
    };
    let mut row = vec![Text(&summary.name).to_string(), link(summary.running as u64, Which::Running)];
    let latencies = summary.latencies.iter().enumerate();
    row.extend(latencies.map(|(bucket, count)| link(*count, Which::Latency(bucket))));
    row.push(link(summary.failed, Which::Failed));
    row
}

fn samples<'a>(name: &str, which: Which, spans: impl Iterator<Item = &'a Span>) -> String {
    let kind = match which {
        Which::Running => "running".to_owned(),
        Which::Latency(bucket) => from(bucket),
        Which::Failed => "failed".to_owned(),
    };
    let heads = ["Began", "Took", "Ids", "Attributes", "Error"];
    let rows = table("", &heads, spans.map(sample));
    format!("<h2>{}: {}</h2>{rows}", Text(name), Text(&kind))
}

fn sample(span: &Span) -> Vec<String> {
    let parent = span.parent.map(|id| format!(" in {id}")).unwrap_or_default();
    let attributes = span.attributes.iter().map(|a| {
        let (key, value) = (a.key.to_string(), a.value.to_string());
        format!("{}={}", Text(&key), Text(&value))
    });
    vec![
        readable(span.started_at),
        GoDuration(span.duration).to_string(),
        format!("<code>trace {}<br>span {}{parent}</code>", span.trace_id, span.span_id),
        attributes.collect::<Vec<_>>().join("<br>"),
        format!("<span class=\"bad\">{}</span>", Text(span.error.as_deref().unwrap_or_default())),
    ]
}
