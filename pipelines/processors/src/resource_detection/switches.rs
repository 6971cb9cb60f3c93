//! The section `resource_attributes` of a detector, which selects the detected attributes.

use std::collections::BTreeMap;

use config::{Key, Problems, Setting};
use serde::Deserialize;

/// An attribute of a detector, and whether it is enabled by default.
pub(super) type Default = (&'static str, bool);

/// Switches of attributes by name.
#[derive(Clone, Debug, std::default::Default, Deserialize, PartialEq)]
#[serde(transparent)]
pub(super) struct Switches(BTreeMap<String, Switch>);

config::section! {
    /// The switch of an attribute.
    #[derive(Clone, Debug, PartialEq)]
    struct Switch {
        /// Whether the attribute is detected. Unset is the default of the detector.
        enabled: Option<bool>,
    }
}

impl Setting for Switches {
    fn kind() -> String {
        BTreeMap::<String, Switch>::kind()
    }

    fn shown(&self) -> String {
        self.0.shown()
    }

    fn keys(&self) -> Vec<Key> {
        Setting::keys(&self.0)
    }
}

impl Switches {
    /// Returns whether the attribute is detected.
    pub(super) fn is_on(&self, name: &str, defaults: &[Default]) -> bool {
        let enabled = self.0.get(name).and_then(|switch| switch.enabled);
        enabled.unwrap_or_else(|| defaults.iter().any(|(known, is_on)| *known == name && *is_on))
    }

    /// Returns these switches, or others if there are none.
    pub(super) fn or(self, others: Switches) -> Self {
        if self.0.is_empty() { others } else { self }
    }

    /// Adds a problem for each name that the detector of this section does not have.
    pub(super) fn check(&self, section: &str, defaults: &[Default], problems: &mut Problems<'_>) {
        for name in self.0.keys().filter(|name| !defaults.iter().any(|(known, _)| known == name)) {
            let known: Vec<&str> = defaults.iter().map(|(known, _)| *known).collect();
            problems.add(&format!("{section}::resource_attributes::{name}"), {
                format!("unknown resource attribute {name:?}: expected one of {}", known.join(", "))
            });
        }
    }
}
