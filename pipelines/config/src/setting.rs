//! The types of configuration keys: their names in the documentation, and the text of a default.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::IgnoredAny;

use crate::{GoDuration, Headers, Key, Node, Optional, Percent, Problems, Secret, key_path};

/// The type of a configuration key.
pub trait Setting {
    /// Returns the name of the type, such as `list of durations`.
    fn kind() -> String;

    /// Returns the value as it is written in a configuration.
    fn shown(&self) -> String;

    /// Returns the keys of a section, or of the items of a list or map of sections.
    fn keys(&self) -> Vec<Key> {
        Self::own_keys()
    }

    /// Returns these keys with the defaults of the section itself.
    fn own_keys() -> Vec<Key> {
        Vec::new()
    }

    /// Adds a problem for each value of a section, or of sections inside the value at `path`, that is not in the range
    /// of its key.
    fn check_ranges(&self, _path: &str, _problems: &mut Problems<'_>) {}
}

macro_rules! settings {
    ($($type:ty, $kind:expr, |$value:ident| $shown:expr;)*) => {$(
        impl Setting for $type {
            fn kind() -> String {
                $kind.to_owned()
            }

            fn shown(&self) -> String {
                let $value = self;
                $shown
            }
        }
    )*};
}

settings! {
    bool, "bool", |value| value.to_string();
    f32, "number", |value| value.to_string();
    f64, "number", |value| value.to_string();
    i8, "integer", |value| value.to_string();
    i32, "integer", |value| value.to_string();
    i64, "integer", |value| value.to_string();
    u16, "integer", |value| value.to_string();
    u32, "integer", |value| value.to_string();
    u64, "integer", |value| value.to_string();
    usize, "integer", |value| value.to_string();
    String, "string", |value| format!("{value:?}");
    PathBuf, "path", |value| format!("{value:?}");
    Secret, "secret string", |_value| "\"\"".to_owned();
    GoDuration, GoDuration::KIND, |value| value.to_string();
    Percent, Percent::KIND, |value| value.to_string();
    Headers, "map or list of headers", |_value| "{}".to_owned();
    Node, "any value", |_value| String::new();
    IgnoredAny, "any value", |_value| String::new();
}

impl<T: Setting> Setting for Option<T> {
    fn kind() -> String {
        T::kind()
    }

    fn shown(&self) -> String {
        self.as_ref().map_or_else(|| "unset".to_owned(), T::shown)
    }

    fn keys(&self) -> Vec<Key> {
        self.as_ref().map_or_else(T::own_keys, T::keys)
    }

    fn check_ranges(&self, path: &str, problems: &mut Problems<'_>) {
        self.iter().for_each(|value| value.check_ranges(path, problems));
    }
}

impl<T: Setting, N> Setting for Optional<T, N> {
    fn kind() -> String {
        "optional section".to_owned()
    }

    fn shown(&self) -> String {
        if self.is_some() { "enabled" } else { "disabled" }.to_owned()
    }

    fn keys(&self) -> Vec<Key> {
        self.get().map_or_else(T::own_keys, T::keys)
    }

    fn check_ranges(&self, path: &str, problems: &mut Problems<'_>) {
        self.get().into_iter().for_each(|section| section.check_ranges(path, problems));
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn kind() -> String {
        format!("list of {}", plural(T::kind()))
    }

    fn shown(&self) -> String {
        let items: Vec<String> = self.iter().map(T::shown).collect();
        format!("[{}]", items.join(", "))
    }

    fn own_keys() -> Vec<Key> {
        T::own_keys()
    }

    fn check_ranges(&self, path: &str, problems: &mut Problems<'_>) {
        for (index, item) in self.iter().enumerate() {
            item.check_ranges(&format!("{path}[{index}]"), problems);
        }
    }
}

impl<T: Setting> Setting for BTreeMap<String, T> {
    fn kind() -> String {
        format!("map of {}", plural(T::kind()))
    }

    fn shown(&self) -> String {
        let entries: Vec<String> =
            self.iter().map(|(key, value)| format!("{key}: {}", value.shown())).collect();
        format!("{{{}}}", entries.join(", "))
    }

    fn own_keys() -> Vec<Key> {
        T::own_keys()
    }

    fn check_ranges(&self, path: &str, problems: &mut Problems<'_>) {
        for (key, value) in self {
            value.check_ranges(&key_path(path, key), problems);
        }
    }
}

/// Returns the plural of a type's name; a choice is named by its values and has none.
fn plural(kind: String) -> String {
    if kind.starts_with('"') || kind.contains(" of ") { kind } else { format!("{kind}s") }
}
