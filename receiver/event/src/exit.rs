//! Exit statuses of processes, as wait(2) returns them.

/// The exit status of a process.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum ExitStatus {
    /// The status is unknown: the process was found to be gone, or executed another program.
    #[default]
    Unknown,
    /// The process exited with this code.
    Exited(u8),
    /// The process was killed by this signal.
    Killed(u8),
}

/// The number of an unknown status, which no other status has.
const UNKNOWN: u32 = u32::MAX;
/// Flag for a written core dump.
const CORE: u32 = 0x80;

impl ExitStatus {
    /// Returns the status of a number of wait(2): signal and core dump flag in the low byte, the exit code above.
    pub const fn of_wait(status: u32) -> ExitStatus {
        match (status & !CORE) as u8 {
            _ if status > 0xffff => ExitStatus::Unknown,
            0 => ExitStatus::Exited((status >> 8) as u8),
            signal => ExitStatus::Killed(signal),
        }
    }

    /// Returns the number of wait(2), all ones if the status is unknown.
    pub const fn wait(self) -> u32 {
        match self {
            ExitStatus::Unknown => UNKNOWN,
            ExitStatus::Exited(code) => (code as u32) << 8,
            ExitStatus::Killed(signal) => signal as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_decoded_as_by_a_parent() {
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
}
