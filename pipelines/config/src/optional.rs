//! Optional sections, such as `sending_queue`, `protocols::grpc`, `tls`.
//!
//! Such a section accepts the key `enabled`, a bool, in addition to its own. The enclosing type determines whether
//! an absent section is enabled, and the type parameter whether `key:` without a value enables it.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, SeqAccess, Visitor};

/// A section that may be disabled. `Optional::default()` is disabled; `Optional::some(T::default())` is the default
/// of a section that is enabled unless disabled.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Optional<T, N = NullIsDefault> {
    section: Option<T>,
    null: PhantomData<N>,
}

/// `key:` without a value enables the section with its defaults, as for most sections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NullIsDefault {}

/// `key:` without a value leaves the section disabled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NullIsNone {}

/// The meaning of null for an [`Optional`].
pub trait Null: sealed::Sealed {
    /// Whether a null enables the section.
    const IS_DEFAULT: bool;
}

impl Null for NullIsDefault {
    const IS_DEFAULT: bool = true;
}

impl Null for NullIsNone {
    const IS_DEFAULT: bool = false;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::NullIsDefault {}
    impl Sealed for super::NullIsNone {}
}

impl<T, N> Optional<T, N> {
    /// Returns a disabled section.
    pub const fn none() -> Self {
        Optional { section: None, null: PhantomData }
    }

    /// Returns an enabled section.
    pub const fn some(section: T) -> Self {
        Optional { section: Some(section), null: PhantomData }
    }

    /// Returns the section, if enabled.
    pub fn get(&self) -> Option<&T> {
        self.section.as_ref()
    }

    /// Returns the section by value, if enabled.
    pub fn into_inner(self) -> Option<T> {
        self.section
    }

    /// Returns whether the section is enabled.
    pub fn is_some(&self) -> bool {
        self.section.is_some()
    }
}

impl<T, N> Default for Optional<T, N> {
    fn default() -> Self {
        Optional::none()
    }
}

/// The newtype name by which this crate's decoder recognizes an optional section. The decoder returns a sequence:
/// whether the section is enabled, and, unless it is null, the section without that key.
pub(super) const MARK: &str = "$optional section";

impl<'de, T, N> Deserialize<'de> for Optional<T, N>
where
    T: DeserializeOwned + Default,
    N: Null,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(MARK, OptionalVisitor(PhantomData))
    }
}

struct OptionalVisitor<T, N>(PhantomData<(T, N)>);

impl<'de, T, N> Visitor<'de> for OptionalVisitor<T, N>
where
    T: DeserializeOwned + Default,
    N: Null,
{
    type Value = Optional<T, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a section")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(if N::IS_DEFAULT { Optional::some(T::default()) } else { Optional::none() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let missing = || A::Error::custom("an optional section needs this crate's decoder");
        let enabled: bool = parts.next_element()?.ok_or_else(missing)?;
        let section: T = parts.next_element()?.ok_or_else(missing)?;
        Ok(if enabled { Optional::some(section) } else { Optional::none() })
    }
}
