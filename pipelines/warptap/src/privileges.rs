//! Reduction of privileges before the first component starts: capabilities that nothing uses are dropped, for this process
//! and what it executes, no executed file grants new ones (`no_new_privs`), and system calls that a collector never makes
//! are refused.
//!
//! Capabilities belong to threads, so this happens before there is a second one. It cannot be undone: a reload that adds a
//! component which needs a dropped capability gets the error of the kernel, and a restart helps.

mod capabilities;
mod denied;

use std::fmt;

use component::ComponentId;

use crate::config::ComponentKind;

pub use self::capabilities::{CAPABILITIES, Capability};
pub use self::denied::{DENIED, Denied};

/// What was done to reduce the privileges, and what could not be.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Reduction {
    /// The names of the capabilities that are kept.
    pub kept: Vec<&'static str>,
    /// Number of capabilities that were dropped.
    pub dropped: u32,
    /// Number of system calls that are refused.
    pub denied: usize,
    /// What failed, each with the error of the kernel.
    pub failures: Vec<String>,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reduction { kept, dropped, denied, failures } = self;
        let kept = if kept.is_empty() { "none".to_owned() } else { kept.join(", ") };
        write!(f, "capabilities kept: {kept}; dropped: {dropped}; system calls refused: {denied}")?;
        failures.iter().try_for_each(|failure| write!(f, "; {failure}"))
    }
}

/// What the privileges of a configuration depend on.
#[derive(Clone, Debug, Default)]
pub struct Privileges {
    /// The components that run.
    pub components: Vec<(ComponentKind, ComponentId)>,
    /// Why privileges that they do not use are kept; empty if they are dropped.
    pub keep: String,
}

impl Privileges {
    /// Reduces the privileges unless they are to be kept. Returns what to log.
    pub fn apply(&self) -> String {
        match self.keep.as_str() {
            "" => reduce(&self.components).to_string(),
            reason => format!("privileges are kept: {reason}"),
        }
    }
}

/// Reduces the privileges of the calling thread, and of the threads and programs that it starts, to what these components
/// use.
fn reduce(components: &[(ComponentKind, ComponentId)]) -> Reduction {
    let mut reduction = Reduction::default();
    let mut note = |what: &str, error: &dyn fmt::Display| reduction.failures.push(format!("{what}: {error}"));
    let used = capabilities::used(components);
    let kept = capabilities::drop_others(used).unwrap_or_else(|e| {
        note("capabilities are not dropped", &e);
        Default::default()
    });
    if let Err(e) = rustix::thread::set_no_new_privs(true) {
        note("executed files may grant privileges", &e);
    }
    match denied::install() {
        Ok(count) => reduction.denied = count,
        Err(e) => note("no system call is refused", &e),
    }
    (reduction.kept, reduction.dropped) = (kept.names, kept.dropped);
    reduction
}

/// Returns what the kernel supports, as text, for `check`.
pub fn support() -> Result<String, String> {
    denied::support()
        .map(|()| format!("no_new_privs, seccomp ({} system calls refused)", denied::numbers().len()))
}
