//! How a process ended.
//!
//! The one idea: the number is the kernel's own, as wait(2) gives it to a parent, and whoever did not see it says so.

/// What became of a process that is gone.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum ExitStatus {
    /// Nobody saw how it ended: it was found gone, or runs another program from here on.
    #[default]
    Unknown,
    /// It exited with this code.
    Exited(u8),
    /// This signal killed it.
    Killed(u8),
}

/// Signals by their numbers, from 1 on, where Linux gives them the same on x86-64 and AArch64.
const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];
/// No status has this value: it is not known.
const UNKNOWN: u32 = u32::MAX;
/// A memory image was written as well.
const CORE: u32 = 0x80;

impl ExitStatus {
    /// Of the kernel's number: the signal and whether a memory image was written in the lower byte, the code above.
    pub const fn of_wait(status: u32) -> ExitStatus {
        match (status & !CORE) as u8 {
            _ if status > 0xffff => ExitStatus::Unknown,
            0 => ExitStatus::Exited((status >> 8) as u8),
            signal => ExitStatus::Killed(signal),
        }
    }

    /// The kernel's number, all ones where it is not known.
    pub const fn wait(self) -> u32 {
        match self {
            ExitStatus::Unknown => UNKNOWN,
            ExitStatus::Exited(code) => (code as u32) << 8,
            ExitStatus::Killed(signal) => signal as u32,
        }
    }

    /// The name of a signal; `None` for those without one, such as real-time signals.
    pub fn signal_name(signal: u8) -> Option<&'static str> {
        SIGNALS.get(usize::from(signal).checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_a_parent_reads_it() {
        for (status, expected) in [
            (0, ExitStatus::Exited(0)),
            (1 << 8, ExitStatus::Exited(1)),
            (255 << 8, ExitStatus::Exited(255)),
            (9, ExitStatus::Killed(9)),
            (11 | CORE, ExitStatus::Killed(11)),
            (u32::MAX, ExitStatus::Unknown),
            (1 << 16, ExitStatus::Unknown),
        ] {
            assert_eq!(ExitStatus::of_wait(status), expected, "{status:#x}");
            assert_eq!(ExitStatus::of_wait(expected.wait()), expected);
        }
    }

    #[test]
    fn signals_have_the_names_of_signal_7() {
        let names = [1, 9, 11, 15, 31, 34, 0].map(ExitStatus::signal_name);
        let expected =
            [Some("SIGHUP"), Some("SIGKILL"), Some("SIGSEGV"), Some("SIGTERM"), Some("SIGSYS"), None, None];
        assert_eq!(names, expected);
    }
}
