//! Datatypes and reductions with NCCL's own names and numbers (nccl.h of 2.32). Operations are in [`probe_abi::nccl`].
//!
//! Values come from another process and are only used as table keys.

pub use probe_abi::nccl::Operation;

/// Name and size in bytes of each `ncclDataType_t`, by its number.
pub const DATATYPES: [(&str, u64); 12] = [
    ("int8", 1),
    ("uint8", 1),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("float16", 2),
    ("float32", 4),
    ("float64", 8),
    ("bfloat16", 2),
    ("float8e4m3", 1),
    ("float8e5m2", 1),
];

/// Names of the built-in `ncclRedOp_t`, by their numbers.
pub const REDUCTIONS: [&str; 5] = ["sum", "prod", "max", "min", "avg"];

/// Returns a datatype's name; `unknown` for unassigned numbers.
pub fn datatype_name(number: u32) -> &'static str {
    DATATYPES.get(number as usize).map_or("unknown", |(name, _)| name)
}

/// Returns the payload of `count` elements in bytes; `None` if the size of an element is unknown.
pub fn payload_bytes(count: u64, datatype: u32) -> Option<u64> {
    DATATYPES.get(datatype as usize).map(|(_, size)| count.saturating_mul(*size))
}

/// Returns a reduction's name; `user` for one that the program defined.
pub fn reduction_name(number: u32) -> &'static str {
    REDUCTIONS.get(number as usize).copied().unwrap_or("user")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_count_times_the_header_s_sizes() {
        let sizes: Vec<u64> = (0..12).map(|datatype| payload_bytes(1, datatype).unwrap()).collect();
        assert_eq!(sizes, [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1]);
        assert_eq!(payload_bytes(1, 12), None);
        assert_eq!(payload_bytes(u64::MAX, 7), Some(u64::MAX));
    }

    #[test]
    fn reductions_from_five_on_are_user_defined() {
        assert_eq!([0, 4, 5, u32::MAX].map(reduction_name), ["sum", "avg", "user", "user"]);
        assert_eq!([0, 9, 12].map(datatype_name), ["int8", "bfloat16", "unknown"]);
    }
}
