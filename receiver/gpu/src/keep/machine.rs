//! What has to be known of the machine to read what an earlier run left: which boot this is, and who still lives.

use event::ProcessId;

/// Ticks of `/proc/PID/stat`, ns: USER_HZ is 100 on every architecture that we build for.
const TICK_NS: u64 = 10_000_000;

/// What every start of the machine has for itself; zeros where the kernel does not say.
pub(super) fn boot() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

/// True while the very process lives, not another one of its pid, nor its body that nobody has fetched yet.
pub(crate) fn lives(process: ProcessId) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
    lives_by(&stat, process)
}

/// The fields behind the name, which may hold anything: state is the first, the start the twentieth.
fn lives_by(stat: &str, process: ProcessId) -> bool {
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let started = fields.get(19).and_then(|ticks| ticks.parse::<u64>().ok());
    let is_gone = fields.first().is_none_or(|state| ["X", "Z"].contains(state));
    !is_gone && started == Some(process.start_ns / TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_another_of_its_pid_and_from_its_body() {
        let stat = |state| {
            format!(
                "7 (a) S 1 (b)) {state} 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4200 0 0 18446744073709551615"
            )
        };
        let process = |start_ns| ProcessId { pid: 7, start_ns };
        assert!(lives_by(&stat("S"), process(42_009_999_999)));
        assert!(!lives_by(&stat("S"), process(42_010_000_000)));
        assert!(!lives_by(&stat("Z"), process(42_000_000_000)));
        assert!(!lives_by("", process(0)));
    }

    #[test]
    fn this_boot_has_a_name() {
        assert!(boot() != [0; 16] || !std::path::Path::new("/proc/sys/kernel/random/boot_id").exists());
        assert_eq!(boot(), boot());
    }
}
