//! A configuration key as one row: [`section!`](crate::section!) turns rows into the struct of a section, its
//! `Default`, its strict decoding, and the table of its keys that documentation and warnings are made from.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::{GoDuration, Problems, Setting};

/// A row of the key table of a section.
#[derive(Clone, Debug)]
pub struct Key {
    /// The name as it is written in the file.
    pub name: &'static str,
    /// The meaning, in Markdown sentences.
    pub doc: String,
    /// The type, in words.
    pub kind: String,
    /// The range of valid values in words, such as `0 to 1`; empty if every value of the type is valid.
    pub range: String,
    /// The default as it would be written in the file; empty for a section.
    pub default: String,
    /// The reason why the key is accepted without effect; none for a key that has one.
    pub unused: Option<&'static str>,
    /// The keys below, of a section or of each item of a list or map of sections.
    pub keys: Vec<Key>,
}

impl Key {
    /// Creates a row for a key of type `T` whose default is `default`. `doc` is the text of its doc comment.
    pub fn new<T: Setting>(
        name: &'static str,
        doc: &str,
        default: &T,
        range: &impl RangeBounds<T>,
        unused: &[&'static str],
    ) -> Self {
        Key {
            name: key_name(name),
            doc: doc.trim().to_owned(),
            kind: T::kind(),
            range: words(range),
            default: default.shown(),
            unused: unused.first().copied(),
            keys: default.keys(),
        }
    }
}

/// A section of the configuration, declared by [`section!`](crate::section!).
pub trait Keys: Default + Setting {
    /// Returns the names of all keys.
    fn names() -> &'static [&'static str];

    /// Returns the rows of all keys, with the values of `self` as their defaults.
    fn keys(&self) -> Vec<Key>;

    /// Reads the next value of `map` into the key `name`. False, and nothing read, if there is no such key.
    fn set<'de, M: MapAccess<'de>>(&mut self, name: &str, map: &mut M) -> Result<bool, M::Error>;
}

/// Returns the key table of a section with its own defaults.
pub fn keys<T: Keys>() -> Vec<Key> {
    Keys::keys(&T::default())
}

/// The range of positive durations.
pub const POSITIVE: (Bound<GoDuration>, Bound<GoDuration>) =
    (Bound::Excluded(GoDuration::from_secs(0)), Bound::Unbounded);

/// Returns a range in words.
fn words<T: Setting>(range: &impl RangeBounds<T>) -> String {
    let end = match (range.start_bound(), range.end_bound()) {
        (Bound::Included(least), Bound::Included(most)) => {
            return format!("{} to {}", least.shown(), most.shown());
        }
        (_, Bound::Included(most)) => format!("{} or less", most.shown()),
        (_, Bound::Excluded(end)) => format!("less than {}", end.shown()),
        (_, Bound::Unbounded) => String::new(),
    };
    let start = match range.start_bound() {
        Bound::Included(least) => format!("{} or more", least.shown()),
        Bound::Excluded(start) => format!("more than {}", start.shown()),
        Bound::Unbounded => String::new(),
    };
    let separator = if start.is_empty() || end.is_empty() { "" } else { " and " };
    [start, end].join(separator)
}

/// Adds a problem if the value of the key at `path` is not in its range.
pub fn require_in<T: Setting + PartialOrd>(
    value: &T,
    range: &impl RangeBounds<T>,
    path: &str,
    problems: &mut Problems<'_>,
) {
    problems.require(range.contains(value), path, {
        format!("{} is out of range: expected {}", value.shown(), words(range))
    });
}

/// Returns the path of a key of the section at `path`, which is empty for the section of a component.
pub fn key_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}::{key}") }
}

/// Returns the key of a field, without the `r#` of a Rust keyword.
pub fn key_name(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// Returns the rows of a shared section; the keys in `table` are without effect.
pub fn shared(mut keys: Vec<Key>, table: &[(&str, &'static str)]) -> Vec<Key> {
    for key in &mut keys {
        let row = table.iter().find(|(name, _)| *name == key.name);
        key.unused = key.unused.or(row.map(|(_, reason)| *reason));
    }
    keys
}

/// Decodes a section key by key; keys that are absent keep the default.
pub fn deserialize<'de, T: Keys, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_struct("section", T::names(), SectionVisitor(PhantomData))
}

struct SectionVisitor<T>(PhantomData<T>);

impl<'de, T: Keys> Visitor<'de> for SectionVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a section")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<T, M::Error> {
        let mut section = T::default();
        while let Some(name) = map.next_key::<String>()? {
            if !section.set(&name, &mut map)? {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(section)
    }
}

/// A value of a type with few, named values, declared by [`choice!`](crate::choice!).
pub trait Choice: Copy + 'static {
    /// All names and their values; the canonical name of a value precedes its other spellings.
    const NAMES: &'static [(&'static str, Self)];
    /// The canonical names.
    const CANONICAL: &'static [&'static str];
    /// Whether names differ by more than case.
    const IGNORES_CASE: bool;
}

/// Decodes the name of a value; the error lists the canonical names.
pub fn choose<'de, T: Choice, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_enum("choice", T::CANONICAL, ChoiceVisitor(PhantomData))
}

struct ChoiceVisitor<T>(PhantomData<T>);

impl<'de, T: Choice> Visitor<'de> for ChoiceVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "one of {}", T::CANONICAL.join(", "))
    }

    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, access: A) -> Result<T, A::Error> {
        use serde::de::{Error as _, VariantAccess as _};
        let (text, rest) = access.variant::<String>()?;
        let is_named = |name: &str| name == text || (T::IGNORES_CASE && name.eq_ignore_ascii_case(&text));
        let chosen = T::NAMES.iter().find(|(name, _)| is_named(name)).map(|(_, value)| *value);
        rest.unit_variant()?;
        chosen.ok_or_else(|| A::Error::unknown_variant(&text, T::CANONICAL))
    }
}

/// A section that can be decoded.
pub trait Decoded: DeserializeOwned + Keys {}

impl<T: DeserializeOwned + Keys> Decoded for T {}

/// Declares sections of the configuration, one row per key:
///
/// ```
/// config::section! {
///     /// Retries of refused requests.
///     #[derive(Clone, Debug)]
///     pub struct RetryConfig {
///         /// Whether a refused request is retried.
///         pub enabled: bool = true,
///         /// Share of a delay by which it varies at random.
///         pub randomization_factor: f64 = 0.5 => in 0.0..=1.0,
///         /// Delay before the first retry.
///         pub initial_interval: config::GoDuration = config::GoDuration::from_secs(5),
///         /// Size of the read buffer in bytes.
///         pub read_buffer_size: i64 => unused "buffers are sized as needed",
///     }
/// }
/// ```
///
/// A key without a default has that of its type. Values outside the range `in` are problems. `..field: Type,` before the first key reads the keys of another
/// section at this level; `= value` gives it other defaults, and `=> unused table` names those of its keys that
/// have no effect here, as pairs of key and reason.
#[macro_export]
macro_rules! section {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(..$part:ident: $shared:ty $(= $own:expr)? $(=> unused $table:expr)?,)*
            $(
                $(#[doc = $doc:literal])*
                $key_vis:vis $key:ident: $type:ty $(= $default:expr)? $(=> in $range:expr)? $(=> unused $reason:expr)?,
            )*
        }
    )*) => {$(
        $(#[$meta])*
        $vis struct $name {
            $(#[doc = "Keys shared with other sections."] pub $part: $shared,)*
            $($(#[doc = $doc])* $key_vis $key: $type,)*
        }

        impl ::std::default::Default for $name {
            fn default() -> Self {
                $name {
                    $($part: $crate::or_default!($($own)?),)*
                    $($key: $crate::or_default!($($default)?),)*
                }
            }
        }

        impl $crate::Keys for $name {
            fn names() -> &'static [&'static str] {
                static NAMES: std::sync::LazyLock<Vec<&'static str>> = std::sync::LazyLock::new(|| {
                    let own: &[&'static str] = &[$($crate::key_name(stringify!($key)),)*];
                    [own, $(<$shared as $crate::Keys>::names(),)*].concat()
                });
                &NAMES
            }

            fn keys(&self) -> Vec<$crate::Key> {
                let own: Vec<$crate::Key> = vec![$(
                    $crate::Key::new(
                        stringify!($key),
                        concat!($($doc,)*),
                        &self.$key,
                        &$crate::or_unbounded!($($range)?),
                        &[$($reason)?],
                    ),
                )*];
                [own, $($crate::shared($crate::Keys::keys(&self.$part), $crate::or_default!($($table)?)),)*].concat()
            }

            fn set<'de, M: $crate::serde::de::MapAccess<'de>>(
                &mut self,
                name: &str,
                map: &mut M,
            ) -> Result<bool, M::Error> {
                let _ = (name, &map);
                $(if name == $crate::key_name(stringify!($key)) {
                    self.$key = map.next_value()?;
                    return Ok(true);
                })*
                Ok(false $(|| $crate::Keys::set(&mut self.$part, name, map)?)*)
            }
        }

        impl $crate::Setting for $name {
            fn kind() -> String {
                "section".to_owned()
            }

            fn shown(&self) -> String {
                String::new()
            }

            fn keys(&self) -> Vec<$crate::Key> {
                $crate::Keys::keys(self)
            }

            fn own_keys() -> Vec<$crate::Key> {
                $crate::keys::<$name>()
            }

            fn check_ranges(&self, path: &str, problems: &mut $crate::Problems<'_>) {
                $(
                    let key = $crate::key_path(path, $crate::key_name(stringify!($key)));
                    $($crate::require_in(&self.$key, &($range), &key, problems);)?
                    $crate::Setting::check_ranges(&self.$key, &key, problems);
                )*
                $($crate::Setting::check_ranges(&self.$part, path, problems);)*
                let _ = (path, problems);
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::deserialize(deserializer)
            }
        }
    )*};
}

/// Expands to the expression, or to the default of its type.
#[doc(hidden)]
#[macro_export]
macro_rules! or_default {
    () => {
        ::std::default::Default::default()
    };
    ($value:expr) => {
        $value
    };
}

/// Expands to the expression, or to the range of all values.
#[doc(hidden)]
#[macro_export]
macro_rules! or_unbounded {
    () => {
        ..
    };
    ($range:expr) => {
        $range
    };
}

/// Declares types with few, named values. The first name of a value is the canonical one, which errors and the
/// documentation show; others are accepted without being shown. With `ignoring case` after the name of the type, names
/// may be written in any case.
///
/// ```
/// config::choice! {
///     /// How much is printed.
///     pub enum Verbosity {
///         /// Counts only.
///         Basic = "basic" | "Basic",
///         /// One line per item.
///         Normal = "normal" | "Normal",
///     }
/// }
/// ```
#[macro_export]
macro_rules! choice {
    ($(
        $(#[$meta:meta])*
        $vis:vis enum $name:ident $(ignoring $case:ident)? {
            $($(#[$variant_meta:meta])* $variant:ident = $first:literal $(| $other:literal)*,)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        $vis enum $name {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $crate::Choice for $name {
            const NAMES: &'static [(&'static str, Self)] =
                &[$(($first, $name::$variant), $(($other, $name::$variant),)*)*];
            const CANONICAL: &'static [&'static str] = &[$($first,)*];
            const IGNORES_CASE: bool = !<[&str]>::is_empty(&[$(stringify!($case))?]);
        }

        impl $crate::Setting for $name {
            fn kind() -> String {
                $crate::choices::<Self>()
            }

            fn shown(&self) -> String {
                let found = <Self as $crate::Choice>::NAMES.iter().find(|(_, value)| value == self);
                format!("{:?}", found.map_or("", |(name, _)| name))
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::choose(deserializer)
            }
        }
    )*};
}

/// Returns the canonical names of a choice as a text.
pub fn choices<T: Choice>() -> String {
    let names: Vec<String> = T::CANONICAL.iter().map(|name| format!("{name:?}")).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
