//! NCCL, seen from outside: who is late, who waits, on which communicator, and what hangs.
//!
//! The one idea: (communicator, sequence number) names one collective on every rank and node, and each rank's host
//! says when it came to it and how long it waited. Everything else is a comparison of that:
//!
//! ```text
//!  Observation --- registry ----> which rank of which communicator        whatever made it, however late we came
//!       |--------- groups ------> when the work of a call begins          at the outermost ncclGroupEnd
//!       |--------- streams -----> which closer covers it                  enqueue, issue gap, wait
//!       `--------- rounds ------> who has come to which collective ---.-> skew, stragglers, hangs
//!                                                                     `-> flight records, traces
//! ```
//!
//! ```
//! use nccl::{Engine, Finding, Settings};
//!
//! # let observations: Vec<nccl::observe::Observation> = Vec::new();
//! let mut engine = Engine::new(Settings::default());
//! let mut print = |finding| match finding {
//!     Finding::Straggler(s) => println!("{} of {} is {} ns behind", s.who, s.who.communicator, s.behind_ns),
//!     Finding::Hang(h) => println!("{} hangs in {} #{}", h.communicator, h.operation.name(), h.seq),
//!     _ => {}
//! };
//! observations.iter().for_each(|observation| engine.observe(observation, &mut print));
//! ```
//!
//! What is not seen is said and not invented: replays of captured collectives, ranks on other nodes, the sequence
//! numbers of a communicator that was there before us.
//!
//! Pure: no clock, no file, no thread, no order that depends on hashing. Everything it remembers is bounded, and
//! what is forgotten to stay within bounds is counted in [`Tally`]. Probes, spans and instruments are others'.

mod align;
mod communicator;
mod engine;
pub mod finding;
pub mod functions;
mod groups;
pub mod hash;
pub mod identity;
mod member;
pub mod observe;
mod op;
pub mod operation;
mod process;
pub mod record;
mod registry;
mod rounds;
mod settings;
mod slab;
pub mod source;
mod splits;
mod straggler;
mod streams;
mod tally;
pub mod trace;

pub use crate::engine::Engine;
pub use crate::finding::{Finding, RankState};
pub use crate::identity::{CommunicatorId, Fact, IdSource, Source, Who};
pub use crate::member::End;
pub use crate::observe::Observation;
pub use crate::op::Op;
pub use crate::operation::Operation;
pub use crate::record::FlightRecord;
pub use crate::settings::{Settings, StragglerSettings, TraceSettings};
pub use crate::tally::Tally;
