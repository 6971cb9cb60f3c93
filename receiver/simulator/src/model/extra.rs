//! Functions that programs need and that have no probe: those that create events in the driver API and in HIP.
//!
//! They are rows, so that the generator and the decoder handle them, with the id 0, which no probe row has.

use probe_abi::{Action, Api, ArgPos, Library, Probe, Wiring};

/// Functions that the stubs export in addition to [`probe_abi::PROBES`].
pub static EXTRA: &[Probe] = &[
    creates(Library::Cuda, Api::Driver, "cuEventCreate"),
    creates(Library::Amdhip, Api::Runtime, "hipEventCreate"),
    creates(Library::Amdhip, Api::Runtime, "hipEventCreateWithFlags"),
];

const fn creates(library: Library, api: Api, symbol: &'static str) -> Probe {
    let wiring = Wiring { handle: ArgPos(1), ..Wiring::NONE };
    Probe { id: 0, library, api, symbol, twin: None, action: Action::Time, wiring }
}
