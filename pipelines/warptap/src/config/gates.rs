//! Feature gates. They have the Collector's names, so that its command lines are accepted; a gate without a
//! counterpart causes a warning.

use component::status::GateInfo;
use config::nearest;

/// Appends the lists of components that a service uses when sources are merged, instead of replacing them.
pub const MERGE_APPEND: &str = "confmap.enableMergeAppendOption";
/// Permits a service without pipelines, with extensions only.
pub const NO_PIPELINES: &str = "service.AllowNoPipelines";
/// Permits pipelines of profiles.
pub const PROFILES: &str = "service.profilesSupport";

/// A row of the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gate {
    /// The name of the gate.
    pub id: &'static str,
    /// Whether the gate is enabled by default.
    pub default: bool,
    /// Its stage: disabled by default in alpha, enabled by default in beta.
    pub stage: &'static str,
    /// Effect of the gate.
    pub does: &'static str,
}

/// Description of gates without effect.
const NOTHING: &str = "Accepted for the sake of command lines that name it; changes nothing here.";

/// All gates, sorted by name.
pub static GATES: [Gate; 18] = [
    alpha(MERGE_APPEND, "Joins the lists of extensions, receivers and exporters of several sources."),
    alpha("exporter.file.nativeCompression", NOTHING),
    alpha("extension.healthcheck.useComponentStatus", NOTHING),
    alpha("filter.filterlog.useOTTLBridge", NOTHING),
    alpha("filter.filtermetric.useOTTLBridge", NOTHING),
    alpha("filter.filterspan.useOTTLBridge", NOTHING),
    beta("ottl.PanicDuplicateName", NOTHING),
    beta("ottl.contexts.enableOTelColContext", NOTHING),
    alpha("ottl.functions.enableLambda", NOTHING),
    alpha("ottl.set.allowNil", NOTHING),
    alpha("pdata.useProtoPooling", NOTHING),
    alpha("pkg.exporterhelper.queueBatchEnabled", NOTHING),
    alpha("receiverhelper.newReceiverMetrics", NOTHING),
    alpha(NO_PIPELINES, "Runs a service that has no pipelines, for its extensions."),
    alpha("service.partialReload", NOTHING),
    beta("service.partialReloadReceivers", NOTHING),
    alpha(PROFILES, "Allows pipelines of profiles, which are passed through as they are."),
    alpha("telemetry.newPipelineTelemetry", NOTHING),
];

const fn alpha(id: &'static str, does: &'static str) -> Gate {
    Gate { id, default: false, stage: "Alpha", does }
}

const fn beta(id: &'static str, does: &'static str) -> Gate {
    Gate { id, default: true, stage: "Beta", does }
}

impl Gate {
    /// Returns whether the gate has an effect.
    pub fn has_effect(&self) -> bool {
        self.does != NOTHING
    }
}

/// The gates that the command line enables or disables.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Gates(Vec<(&'static Gate, bool)>);

impl Gates {
    /// Parses the values of `--feature-gates`, each a list such as `a,+b,-c`; the last mention of a gate applies.
    pub fn parse(lists: &[impl AsRef<str>]) -> Result<Self, String> {
        let mut gates = Gates::default();
        for list in lists.iter().map(AsRef::as_ref).filter(|list| !list.is_empty()) {
            gates.take(list).map_err(|wrong| {
                format!("invalid argument {list:?} for \"--feature-gates\" flag: {}", wrong.join("; "))
            })?;
        }
        Ok(gates)
    }

    /// Returns whether a gate is enabled.
    pub fn is_on(&self, id: &str) -> bool {
        let setting = self.0.iter().rev().find(|(gate, _)| gate.id == id).map(|(_, is_on)| *is_on);
        setting.unwrap_or_else(|| find(id).is_some_and(|gate| gate.default))
    }

    /// Returns the state of all gates.
    pub fn shown(&self) -> Vec<GateInfo> {
        let shown = |gate: &Gate| GateInfo {
            id: gate.id.to_owned(),
            is_on: self.is_on(gate.id),
            stage: gate.stage.to_owned(),
            description: gate.does.to_owned(),
        };
        GATES.iter().map(shown).collect()
    }

    /// Returns the gates without effect that the command line changes.
    pub fn without_effect(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().filter(|(gate, is_on)| !gate.has_effect() && *is_on != gate.default).map(|(g, _)| g.id)
    }

    /// Adds one list, or returns all its errors.
    fn take(&mut self, list: &str) -> Result<(), Vec<String>> {
        let mut wrong = Vec::new();
        for (index, item) in list.split(',').enumerate() {
            match read_item(index, item) {
                Ok(gate) => self.0.push(gate),
                Err(why) => wrong.push(why),
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

fn read_item(index: usize, item: &str) -> Result<(&'static Gate, bool), String> {
    let (id, is_on) = match item.strip_prefix('-') {
        Some(id) => (id, false),
        None => (item.strip_prefix('+').unwrap_or(item), true),
    };
    if id.is_empty() {
        return Err(format!("empty feature gate identifier at index {index}"));
    }
    find(id).map(|gate| (gate, is_on)).ok_or_else(|| no_such(id))
}

/// Returns the gate of that name.
pub fn find(id: &str) -> Option<&'static Gate> {
    GATES.iter().find(|gate| gate.id == id)
}

fn no_such(id: &str) -> String {
    let ids = GATES.each_ref().map(|gate| gate.id);
    let hint = nearest(id, ids).map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default();
    format!("no such feature gate {id:?}{hint}. valid gates: [{}]", ids.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_unique() {
        assert!(GATES.is_sorted_by(|a, b| a.id < b.id));
    }

    #[test]
    fn the_last_mention_of_a_gate_applies() {
        for (lists, is_on) in [
            (vec![], false),
            (vec![""], false),
            (vec!["service.profilesSupport"], true),
            (vec!["-ottl.set.allowNil,+service.profilesSupport"], true),
            (vec!["service.profilesSupport", "-service.profilesSupport"], false),
            (vec!["-service.profilesSupport,service.profilesSupport"], true),
        ] {
            assert_eq!(Gates::parse(&lists).unwrap().is_on(PROFILES), is_on, "{lists:?}");
        }
        assert!(Gates::default().is_on("ottl.PanicDuplicateName"));
    }

    #[test]
    fn unknown_gates_are_refused_with_a_suggestion() {
        for (list, want) in [
            (
                "service.profileSupport",
                r#"no such feature gate "service.profileSupport" (did you mean "service.profilesSupport"?)"#,
            ),
            ("a,b", r#"no such feature gate "b""#),
            (",", "empty feature gate identifier at index 1"),
            ("-", "empty feature gate identifier at index 0"),
        ] {
            let error = Gates::parse(&[list]).unwrap_err();
            assert!(
                error.contains(want) && error.contains(&format!("{list:?} for \"--feature-gates\"")),
                "{error}"
            );
        }
    }

    #[test]
    fn gates_without_effect_are_returned() {
        let gates =
            Gates::parse(&["ottl.set.allowNil,service.profilesSupport,ottl.PanicDuplicateName"]).unwrap();
        assert_eq!(gates.without_effect().collect::<Vec<_>>(), ["ottl.set.allowNil"]);
    }
}
