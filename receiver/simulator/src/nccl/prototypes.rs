//! The prototypes of libnccl's functions, made of the table that the stub library's functions are made of.

/// The kind of an argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NcclRole {
    /// A word: buffer, count of elements, handle, stream or configuration.
    Word,
    /// An `int`; the upper half of its register is undefined.
    Int,
    /// The number of items of the call's lists, an `int`.
    Count,
    /// A pointer to which a handle is written.
    OutHandle,
    /// A pointer to which a list of handles is written.
    OutHandles,
    /// A pointer to which an `int` is written.
    OutInt,
    /// A pointer to which an id is written.
    OutId,
    /// An id by value.
    Id,
    /// A pointer to an id.
    IdPointer,
    /// A pointer to `int`s.
    Ints,
}

macro_rules! nccl_functions {
    (
        collectives { $($collective:ident($($before:ident),* $(; $after:ident)?);)* }
        $($symbol:ident($($name:ident: $type:ident),*) $body:block)*
    ) => {
        /// Symbol and arguments of every function; probe rows leave out the configuration of collectives.
        static PROTOTYPES: &[(&str, &[NcclRole])] = &[
            $((
                stringify!($collective),
                &[$(NcclRole::$before,)* NcclRole::Word, NcclRole::Word],
            ),)*
            $((stringify!($symbol), &[$(NcclRole::$type),*]),)*
        ];
    };
}

include!("functions.rs");

/// Returns the arguments of a function.
pub fn prototype(symbol: &str) -> Option<&'static [NcclRole]> {
    PROTOTYPES.iter().find(|(name, _)| *name == symbol).map(|(_, roles)| *roles)
}

#[cfg(test)]
mod tests {
    use probe_abi::{Library, PROBES};

    use super::*;

    #[test]
    fn every_probe_row_matches_its_prototype() {
        for probe in PROBES.iter().filter(|p| p.library == Library::Nccl) {
            let symbol = probe.symbol;
            let roles = prototype(symbol).unwrap_or_else(|| panic!("{symbol}: add it to nccl/functions.rs"));
            let spec = probe.wiring.args;
            assert_eq!(usize::from(spec.arguments), roles.len(), "{symbol}");
            assert_eq!(spec.by_value, roles.contains(&NcclRole::Id), "{symbol}");
        }
    }
}
