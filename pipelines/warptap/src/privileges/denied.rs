//! The system calls that are refused with `EPERM` (seccomp(2)).
//!
//! A list of what is refused, not of what is allowed: the vendors' libraries make calls that are not known here, and a call
//! that a future version of a library needs must not stop a collector.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// System calls that are refused for one reason.
pub struct Denied {
    /// Why no component needs them.
    pub reason: &'static str,
    /// Their numbers.
    pub calls: &'static [libc::c_long],
}

/// The system calls that are refused.
pub const DENIED: [Denied; 8] = [
    Denied {
        reason: "modules and other kernels",
        calls: &[
            libc::SYS_delete_module,
            libc::SYS_finit_module,
            libc::SYS_init_module,
            libc::SYS_kexec_file_load,
            libc::SYS_kexec_load,
            libc::SYS_reboot,
        ],
    },
    Denied {
        reason: "mounts, namespaces and other roots",
        calls: &[
            libc::SYS_chroot,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fsopen,
            libc::SYS_fspick,
            libc::SYS_mount,
            libc::SYS_mount_setattr,
            libc::SYS_move_mount,
            libc::SYS_open_tree,
            libc::SYS_pivot_root,
            libc::SYS_setns,
            libc::SYS_umount2,
            libc::SYS_unshare,
        ],
    },
    Denied {
        reason: "changes of other processes: they are only read",
        calls: &[
            libc::SYS_kcmp,
            libc::SYS_pidfd_getfd,
            libc::SYS_process_madvise,
            libc::SYS_process_vm_writev,
            libc::SYS_ptrace,
        ],
    },
    Denied {
        reason: "other users and groups",
        calls: &[
            libc::SYS_setfsgid,
            libc::SYS_setfsuid,
            libc::SYS_setgid,
            libc::SYS_setgroups,
            libc::SYS_setregid,
            libc::SYS_setresgid,
            libc::SYS_setresuid,
            libc::SYS_setreuid,
            libc::SYS_setuid,
        ],
    },
    Denied {
        reason: "settings of the machine",
        calls: &[
            libc::SYS_acct,
            libc::SYS_adjtimex,
            libc::SYS_clock_adjtime,
            libc::SYS_clock_settime,
            libc::SYS_quotactl,
            libc::SYS_setdomainname,
            libc::SYS_sethostname,
            libc::SYS_settimeofday,
            libc::SYS_swapoff,
            libc::SYS_swapon,
            libc::SYS_syslog,
            libc::SYS_vhangup,
        ],
    },
    Denied {
        reason: "keys of the kernel",
        calls: &[libc::SYS_add_key, libc::SYS_keyctl, libc::SYS_request_key],
    },
    Denied {
        reason: "usual means of attacks on the kernel",
        calls: &[
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
            libc::SYS_io_uring_setup,
            libc::SYS_open_by_handle_at,
            libc::SYS_personality,
            libc::SYS_userfaultfd,
        ],
    },
    Denied { reason: "ports and memory of devices", calls: DEVICES },
];

#[cfg(target_arch = "x86_64")]
const DEVICES: &[libc::c_long] = &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const DEVICES: &[libc::c_long] = &[];

/// The mark of system calls of the x32 ABI, where there is one (arch/x86/include/uapi/asm/unistd.h).
const X32: libc::c_long = 0x4000_0000;

/// Returns the numbers of the refused system calls.
pub(super) fn numbers() -> Vec<libc::c_long> {
    DENIED.iter().flat_map(|denied| denied.calls).copied().collect()
}

fn program() -> Result<BpfProgram, String> {
    let twins = |call: libc::c_long| {
        [call, call | X32].into_iter().take(if cfg!(target_arch = "x86_64") { 2 } else { 1 })
    };
    let rules: BTreeMap<i64, Vec<_>> =
        numbers().into_iter().flat_map(twins).map(|call| (call, Vec::new())).collect();
    let architecture = std::env::consts::ARCH.try_into().map_err(|e| format!("{e:?}"))?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture);
    filter.and_then(TryInto::try_into).map_err(|e| e.to_string())
}

/// Refuses the system calls to this thread and those that it starts. Returns their number.
pub(super) fn install() -> Result<usize, String> {
    apply_filter(&program()?).map_err(|e| e.to_string())?;
    Ok(numbers().len())
}

/// Returns whether the kernel filters system calls: it then reports the mode of a thread (proc_pid_status(5)).
pub(super) fn support() -> Result<(), String> {
    program()?;
    let status = std::fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let has_filters = status.lines().any(|line| line.starts_with("Seccomp:"));
    has_filters.then_some(()).ok_or_else(|| "the kernel has no seccomp (CONFIG_SECCOMP_FILTER)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_refused_for_one_reason() {
        let mut all = numbers();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(!all.contains(&libc::SYS_execve) && !all.contains(&libc::SYS_bpf), "the guard, and probes");
    }

    /// In a thread of its own, which alone has the filter. Without the filter, root may change the root directory.
    #[test]
    fn refused_calls_fail_and_others_do_not() {
        let results = std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            install().unwrap();
            let file = std::fs::File::open("/proc/self/status");
            (file.is_ok(), std::os::unix::fs::chroot("/").map_err(|e| e.kind()))
        });
        assert_eq!(results.join().unwrap(), (true, Err(std::io::ErrorKind::PermissionDenied)));
    }
}
