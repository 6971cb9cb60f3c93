//! Recognition of file systems that a user serves.
//!
//! The kernel reads a page of a file before it probes it, and no process of the machine can fork meanwhile. A file system in
//! user space (FUSE) can keep that page back for ever.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::maps::Mapping;

/// Returns the user (uid) who serves the file system of a mapped file, or one that a look-up of its path would pass, by
/// /proc/PID/mountinfo (proc_pid_mountinfo(5)); `None` if the kernel or root does.
pub fn server(mounts: &str, mapping: &Mapping) -> Option<u32> {
    let (major, minor) = mapping.file.device;
    let device = format!("{major}:{minor}");
    mounts.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(2);
        let (of, at) = (mount.next()?, mount.nth(1)?);
        let is_passed =
            of == device || mapping.path.starts_with(Path::new(OsStr::from_bytes(&unescaped(at))));
        user_of(file_system).filter(|_| is_passed)
    })
}

/// Returns the user in the options of a FUSE file system, unless it is root.
fn user_of(file_system: &str) -> Option<u32> {
    let mut fields = file_system.split(' ');
    let (kind, options) = (fields.next()?, fields.nth(1)?);
    let user = options.split(',').find_map(|option| option.strip_prefix("user_id="))?.parse().ok()?;
    (kind.starts_with("fuse") && user != 0).then_some(user)
}

/// Returns a path without the octal escapes of space, tab, end of line and backslash.
fn unescaped(path: &str) -> Vec<u8> {
    let mut parts = path.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..3).and_then(|octal| u8::from_str_radix(octal, 8).ok());
        bytes.extend(code);
        bytes.extend(&part.as_bytes()[if code.is_some() { 3 } else { 0 }..]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::FileKey;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:41 / /home/user/fuse rw,nosuid - fuse.sshfs host: rw,user_id=1000,group_id=1000,allow_other
31 22 0:42 / /mnt/shared rw,relatime - fuse.juicefs JuiceFS:vol rw,user_id=0,group_id=0,default_permissions
32 22 0:43 / /data rw - 9p user_id=7 rw,user_id=1000
33 22 8:1 / /usb rw,nosuid - fuseblk /dev/sda1 rw,user_id=1001,group_id=1001
34 22 0:44 / /cut rw - fuse.x
35 22 0:45 / /a\\040b/\\134 rw - fuse.x y rw,user_id=1002
bad";

    fn of(device: (u32, u32), path: &str) -> Option<u32> {
        server(
            MOUNTS,
            &Mapping { start: 0, end: 1, offset: 0, file: FileKey { device, inode: 1 }, path: path.into() },
        )
    }

    #[test]
    fn users_serve_fuse_file_systems_that_root_did_not_mount() {
        assert_eq!([(0, 41), (8, 1)].map(|device| of(device, "/x")), [Some(1000), Some(1001)]);
        let others = [(254, 0), (0, 42), (0, 43), (0, 44), (0, 4), (9, 9)];
        assert_eq!(others.map(|device| of(device, "/x")), [None; 6]);
    }

    /// The file was mapped before another file system was mounted over a directory of its path.
    #[test]
    fn mount_points_on_the_way_to_a_file_count() {
        let paths = ["/home/user/fuse/lib", "/home/user/fuse2/lib", "/a b/\\/lib", "/mnt/shared/lib", "/a"];
        assert_eq!(paths.map(|path| of((254, 0), path)), [Some(1000), None, Some(1002), None, None]);
    }
}
