//! Sections that can be switched off: `sending_queue`, `protocols::grpc`, `tls`.
//!
//! Inside such a section the key `enabled` is accepted beside its own, as a real bool. What its absence
//! means is the default of the enclosing config type; what a bare `key:` means is said by the type.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, SeqAccess, Visitor};

/// A section that may be there. `Optional::default()` is none; an enclosing type whose section is on
/// unless switched off begins with `Optional::some(T::default())`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Optional<T, N = NullIsDefault> {
    section: Option<T>,
    null: PhantomData<N>,
}

/// `key:` with nothing behind it switches the section on with its defaults. What most sections do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NullIsDefault {}

/// `key:` with nothing behind it leaves the section off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NullIsNone {}

/// What a null means to an [`Optional`].
pub trait Null: sealed::Sealed {
    /// True where a null switches the section on.
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
    /// A section that is off.
    pub const fn none() -> Self {
        Optional { section: None, null: PhantomData }
    }

    /// A section that is on.
    pub const fn some(section: T) -> Self {
        Optional { section: Some(section), null: PhantomData }
    }

    /// The section, where it is on.
    pub fn get(&self) -> Option<&T> {
        self.section.as_ref()
    }

    /// The section, where it is on.
    pub fn into_inner(self) -> Option<T> {
        self.section
    }

    /// True where it is on.
    pub fn is_some(&self) -> bool {
        self.section.is_some()
    }
}

impl<T, N> Default for Optional<T, N> {
    fn default() -> Self {
        Optional::none()
    }
}

/// The newtype name by which the decoder of this crate knows an optional section. It then answers with a
/// sequence: whether the section is enabled, and, unless it is null, the section without that key.
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
