//! Values of `error.type` for the library's status codes.

use hardware::Fault;

/// Status of a list that is too short for all elements, `AMDSMI_STATUS_OUT_OF_RESOURCES`.
pub(crate) const OUT_OF_RESOURCES: u32 = 15;

/// Converts a status. The numbers of amdsmi.h in this list never changed.
pub(crate) fn checked(status: u32) -> Result<(), Fault> {
    Err(match status {
        0 => return Ok(()),
        2 | 3 | 5 => Fault::Unsupported,
        1 => Fault::Failed("invalid_argument"),
        4 => Fault::Failed("library_not_found"),
        6 | 7 => Fault::Failed("api_failed"),
        8 => Fault::Failed("timeout"),
        9 | 30 => Fault::Failed("busy"),
        10 => Fault::Failed("no_permission"),
        11 => Fault::Failed("interrupted"),
        12 => Fault::Failed("io"),
        14 => Fault::Failed("file"),
        OUT_OF_RESOURCES => Fault::Failed("out_of_resources"),
        18 => Fault::Failed("init"),
        31 => Fault::Failed("not_found"),
        32 => Fault::Failed("uninitialized"),
        34 => Fault::Failed("driver_not_loaded"),
        40 => Fault::Failed("no_data"),
        41..=43 => Fault::Failed("unexpected_data"),
        0xffff_fffe | 0xffff_ffff => Fault::Failed("unknown"),
        _ => Fault::Failed("_OTHER"),
    })
}
