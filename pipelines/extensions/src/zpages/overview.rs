//! Pages with the uptime, the status of each component, the extensions and the feature gates.

use std::collections::BTreeMap;
use std::time::Duration;

use component::status::ComponentStatus;
use config::GoDuration;

use super::Shown;
use super::html::{Text, properties, readable, table};

/// Returns the text and the CSS class of a status.
pub(super) fn status_text(status: Option<&ComponentStatus>) -> (String, &'static str) {
    match status {
        None => ("not started".to_owned(), "dim"),
        Some(ComponentStatus::Starting) => ("starting".to_owned(), "dim"),
        Some(ComponentStatus::Ok) => ("OK".to_owned(), "ok"),
        Some(ComponentStatus::RecoverableError(why)) => (format!("recoverable error: {why}"), "warn"),
        Some(ComponentStatus::PermanentError(why)) => (format!("permanent error: {why}"), "bad"),
        Some(ComponentStatus::Stopped) => ("stopped".to_owned(), "dim"),
    }
}

fn coloured(status: Option<&ComponentStatus>) -> String {
    let (text, class) = status_text(status);
    format!("<span class=\"{class}\">{}</span>", Text(&text))
}

/// Truncates a duration to seconds.
fn whole_secs(duration: Duration) -> GoDuration {
    GoDuration::from_secs(duration.as_secs())
}

pub(super) fn service(shown: &Shown) -> String {
    let state = shown.host.state();
    let ready = match state.ready_since() {
        Some((at, uptime)) => format!("since {} ({})", readable(at), whole_secs(uptime)),
        None => "no: starting, reloading or stopping".to_owned(),
    };
    let about = properties(&[
        ("Command", "warptap".to_owned()),
        ("Version", shown.version.to_owned()),
        ("System", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
        ("Process", std::process::id().to_string()),
        ("Started", format!("{} ({} ago)", readable(state.started_at), whole_secs(state.uptime()))),
        ("Ready", ready),
    ]);
    format!("{about}<h2>Components</h2>{}", components(&state.components()))
}

fn components(components: &BTreeMap<String, ComponentStatus>) -> String {
    // Components that do not work come first.
    let mut rows: Vec<_> = components.iter().collect();
    rows.sort_by_key(|(_, status)| **status == ComponentStatus::Ok);
    let row =
        |(name, status): (&String, &ComponentStatus)| vec![Text(name).to_string(), coloured(Some(status))];
    table("", &["Component", "Status"], rows.into_iter().map(row))
}

pub(super) fn extensions(shown: &Shown) -> String {
    let components = shown.host.state().components();
    let row = |id: &String| {
        let status = components.get(&format!("\"{id}\" extension"));
        vec![Text(id).to_string(), coloured(status)]
    };
    table("", &["Extension", "Status"], shown.host.state().extensions().iter().map(row))
}

pub(super) fn features(shown: &Shown) -> String {
    let rows = shown.host.state().gates().into_iter().map(|gate| {
        let (class, on) = if gate.is_on { ("ok", "on") } else { ("dim", "off") };
        let on = format!("<span class=\"{class}\">{on}</span>");
        let [id, stage, does] = [gate.id, gate.stage, gate.description].map(|text| Text(&text).to_string());
        vec![format!("<code>{id}</code>"), on, stage, does]
    });
    table("", &["Gate", "State", "Stage", "What it does"], rows)
}
