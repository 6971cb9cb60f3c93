//! Which files a process writes, as the kernel reports it (fanotify(7)).

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};

/// The files that a process has written since this value was created.
pub struct Writes(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Writes {
    /// Begins to note the files on the file systems of the root directory and of the directory for temporary files.
    pub fn of(pid: u32) -> Writes {
        let init = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_UNLIMITED_QUEUE | InitFlags::FAN_CLOEXEC;
        let kernel = Fanotify::init(init, EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC).unwrap();
        for path in [Path::new("/"), &std::env::temp_dir()] {
            let (flags, written) =
                (MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM, MaskFlags::FAN_MODIFY);
            kernel
                .mark(flags, written | MaskFlags::FAN_CLOSE_WRITE, nix::fcntl::AT_FDCWD, Some(path))
                .unwrap();
        }
        let noted = Arc::new(Mutex::new(BTreeSet::new()));
        let into = noted.clone();
        std::thread::spawn(move || {
            while let Ok(events) = kernel.read_events() {
                for event in events.iter().filter(|event| event.pid().cast_unsigned() == pid) {
                    let Some(file) = event.fd() else { continue };
                    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
                    into.lock().unwrap().insert(std::fs::read_link(link).unwrap_or_default());
                }
            }
        });
        Writes(noted)
    }

    /// Returns the files that are not below a directory. Panics if there is none below it, since the kernel reports them.
    pub fn outside(&self, dir: &Path) -> Vec<PathBuf> {
        // The kernel has queued the events; the thread has yet to read them.
        std::thread::sleep(Duration::from_millis(500));
        let all = self.0.lock().unwrap();
        assert!(all.iter().any(|path| path.starts_with(dir)), "{all:?}");
        all.iter().filter(|path| !path.starts_with(dir)).cloned().collect()
    }
}
