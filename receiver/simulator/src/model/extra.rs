//! Functions that nobody probes and that a program still needs: the makers of driver and HIP objects.
//!
//! They are written as rows so that the same generator and the same decoder serve them. Their id is 0, which is
//! no row's: nothing of them can end up among the probed.

use probe_abi::{
    Action, Api, ArgPos, ArgsSpec, Bytes, Direction, DirectionSource, Grid, Library, Probe, Wiring,
};

/// Exported by the stubs beside [`probe_abi::PROBES`].
pub static EXTRA: &[Probe] = &[
    maker(Library::Cuda, Api::Driver, "cuEventCreate"),
    maker(Library::Amdhip, Api::Runtime, "hipEventCreate"),
    maker(Library::Amdhip, Api::Runtime, "hipEventCreateWithFlags"),
];

const fn maker(library: Library, api: Api, symbol: &'static str) -> Probe {
    let wiring = Wiring {
        stream: ArgPos::NONE,
        handle: ArgPos(1),
        graph: ArgPos::NONE,
        bytes: Bytes::None,
        direction: DirectionSource::Fixed(Direction::Unknown),
        grid: Grid::None,
        blocking: false,
        args: ArgsSpec::NONE,
    };
    Probe { id: 0, library, api, symbol, twin: None, action: Action::Time, wiring }
}
