//! Attachment while the kernel expedites its RCU grace periods.
//!
//! The first probe of a file waits for a grace period (`percpu_down_write` in kernel/events/uprobes.c), which takes 10 to 40
//! ms on an idle machine and less than one if it is expedited (Documentation/admin-guide/kernel-parameters.txt,
//! `rcupdate.rcu_expedited`). The switch is one for the whole machine, so it is set for the milliseconds of an attachment
//! only, and not at all if it is set already. Another agent on the machine can end it too early, which makes the
//! attachment slow. An agent that is killed meanwhile leaves it set.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::attach::{Attach, AttachError, Attached, ProbedFile};
use crate::kernel::Kernel;

/// The switch in sysfs (`rcu_expedited` in kernel/ksysfs.c).
pub(crate) const SWITCH: &str = "/sys/kernel/rcu_expedited";

/// A method of attachment during which grace periods are expedited.
struct Expedited {
    attach: Box<dyn Attach>,
    switch: Switch,
}

/// Returns a method that attaches as this one does with expedited grace periods, or this one if they cannot be expedited.
pub fn expedited(attach: Box<dyn Attach>) -> Box<dyn Attach> {
    match Switch::open(Path::new(SWITCH)) {
        Ok(switch) => Box::new(Expedited { attach, switch }),
        Err(error) => {
            tracing::info!(%error, switch = SWITCH, "grace periods are not expedited: probing a new library takes 10 to 40 ms");
            attach
        }
    }
}

impl Attach for Expedited {
    fn name(&self) -> &'static str {
        self.attach.name()
    }

    fn attach_all(
        &self,
        kernel: &mut Kernel,
        files: &[ProbedFile<'_>],
    ) -> Vec<Result<Attached, AttachError>> {
        let _expedited = (!files.is_empty()).then(|| self.switch.set());
        self.attach.attach_all(kernel, files)
    }
}

/// A switch with the values 0 and 1 in a file.
pub(crate) struct Switch {
    file: File,
}

/// The time in which a switch is set.
struct Set<'a> {
    file: Option<&'a File>,
}

impl Switch {
    /// Opens a switch that can be read and set.
    pub(crate) fn open(path: &Path) -> io::Result<Switch> {
        Ok(Switch { file: File::options().read(true).write(true).open(path)? })
    }

    /// Sets the switch until the value is dropped; leaves it alone if it is set.
    fn set(&self) -> Set<'_> {
        let mut value = [0];
        let is_clear = self.file.read_exact_at(&mut value, 0).is_ok() && value == *b"0";
        let is_set = is_clear && self.file.write_all_at(b"1", 0).is_ok();
        Set { file: is_set.then_some(&self.file) }
    }
}

impl Drop for Set<'_> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.file.map(|file| file.write_all_at(b"0", 0)) {
            tracing::error!(%error, switch = SWITCH, "grace periods of the kernel stay expedited: write 0 to the switch");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(name: &str, value: &str) -> (std::path::PathBuf, Switch) {
        let path = std::env::temp_dir().join(format!("warptap-switch-{}-{name}", std::process::id()));
        std::fs::write(&path, value).unwrap();
        (path.clone(), Switch::open(&path).unwrap())
    }

    #[test]
    fn switch_is_set_for_the_time_and_left_alone_if_it_was_set() {
        for (before, meanwhile, after) in [("0\n", "1\n", "0\n"), ("1\n", "1\n", "1\n"), ("", "", "")] {
            let (path, switch) = switch("values", before);
            let set = switch.set();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), meanwhile);
            drop(set);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
            std::fs::remove_file(path).unwrap();
        }
    }
}
