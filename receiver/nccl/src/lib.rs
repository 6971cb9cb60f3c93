//! Analysis of NCCL from outside the process: late ranks, waits, communicators and hangs.
//!
//! The pair (communicator, sequence number) identifies one collective on every rank and node. Each rank's host shows
//! when it reached the collective and how long it waited; all results are comparisons of these times:
//!
//! ```text
//!  Observation --- registry ----> which rank of which communicator        for every way to create one, also attached late
//!       |--------- groups ------> when the work of a call begins          at the outermost ncclGroupEnd
//!       |--------- streams -----> which sync call covers it               enqueue, issue gap, wait
//!       `--------- rounds ------> which ranks reached a collective ----.-> skew, stragglers, hangs
//!                                                                     `-> flight records, traces
//! ```
//!
//! ```
//! use nccl::{Engine, Finding, Settings};
//!
//! # let observations: Vec<nccl::observe::Observation> = Vec::new();
//! let mut engine = Engine::new(Settings::default());
//! let mut findings = Vec::new();
//! observations.iter().for_each(|observation| engine.observe(observation, &mut findings));
//! for finding in &findings {
//!     match finding {
//!         Finding::Straggler(s) => println!("{} of {} is {} ns behind", s.who, s.who.communicator, s.behind_ns),
//!         Finding::Hang(h) => println!("{} hangs in {} #{}", h.communicator, h.operation.name(), h.seq),
//!         _ => {}
//!     }
//! }
//! ```
//!
//! Unobserved facts are marked as unknown and never guessed: replays of captured collectives, ranks on other nodes, the
//! sequence numbers of a communicator that existed before the agent started.
//!
//! The crate is pure: no clock, no file, no thread, and no order that depends on hashing. All state is bounded;
//! evictions are counted in [`Tally`]. Probes, spans and instruments are in other crates.

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
pub mod source;
mod splits;
mod straggler;
mod streams;
mod tally;
pub mod trace;

pub use crate::engine::Engine;
pub use crate::finding::{Finding, RankState};
pub use crate::identity::{CommunicatorId, Fact, IdSource, RankIdentity, Source};
pub use crate::member::RankEnd;
pub use crate::observe::Observation;
pub use crate::op::Op;
pub use crate::operation::Operation;
pub use crate::record::FlightRecord;
pub use crate::settings::{Settings, StragglerSettings, TraceSettings};
pub use crate::tally::Tally;
