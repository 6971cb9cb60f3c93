//! Values of `error.type` for the library's errors.

use hardware::Fault;
use nvml_wrapper::error::NvmlError;

/// Returns the fault of a device whose identity cannot be read: it is lost.
pub(crate) fn lost(error: NvmlError) -> Fault {
    Fault::Lost(fault(error).name())
}

/// Converts an error of the library.
pub(crate) fn fault(error: NvmlError) -> Fault {
    match error {
        NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => {
            Fault::Unsupported
        }
        NvmlError::GpuLost => Fault::Lost("gpu_is_lost"),
        NvmlError::ResetRequired => Fault::Lost("reset_required"),
        NvmlError::CorruptedInfoROM => Fault::Failed("corrupted_inforom"),
        NvmlError::DriverNotLoaded => Fault::Failed("driver_not_loaded"),
        NvmlError::InvalidArg => Fault::Failed("invalid_argument"),
        NvmlError::IrqIssue => Fault::Failed("irq_issue"),
        NvmlError::LibRmVersionMismatch => Fault::Failed("lib_rm_version_mismatch"),
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => Fault::Failed("library_not_found"),
        NvmlError::NoData => Fault::Failed("no_data"),
        NvmlError::NoPermission => Fault::Failed("no_permission"),
        NvmlError::NotFound => Fault::Failed("not_found"),
        NvmlError::OperatingSystem => Fault::Failed("operating_system"),
        NvmlError::Timeout => Fault::Failed("timeout"),
        NvmlError::Uninitialized => Fault::Failed("uninitialized"),
        NvmlError::Unknown => Fault::Failed("unknown"),
        _ => Fault::Failed("_OTHER"),
    }
}
