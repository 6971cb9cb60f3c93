//! Host functions of the player that have symbols, as the host functions of kernels have in libraries that are not
//! stripped. Scripts launch them by name, to test that their names are found in the file.

#![allow(unsafe_code, reason = "functions are exported by a symbol; the symbols are not used elsewhere")]

/// Declares functions and the table of them. Each returns another number, so that the compiler merges none.
macro_rules! named {
    ($($name:ident = $symbol:literal => $number:literal;)*) => {
        $(
            #[unsafe(export_name = $symbol)]
            extern "C" fn $name() -> u64 {
                std::hint::black_box($number)
            }
        )*

        /// Symbols and functions.
        static NAMED: &[(&str, extern "C" fn() -> u64)] = &[$(($symbol, $name)),*];
    };
}

// Mangled by the Itanium ABI, as the host functions of kernels are.
named! {
    add_kernel = "_Z14add_all_kernelPfi" => 1;
    softmax_kernel = "_Z19softmax_warp_kernelPfS_i" => 2;
}

/// Returns the address of the player's function with this symbol.
pub(crate) fn address_of(symbol: &str) -> Option<u64> {
    NAMED.iter().find(|(name, _)| *name == symbol).map(|(_, function)| *function as usize as u64)
}

/// Returns the symbols of all functions.
pub fn symbols() -> impl Iterator<Item = &'static str> {
    NAMED.iter().map(|(symbol, _)| *symbol)
}
