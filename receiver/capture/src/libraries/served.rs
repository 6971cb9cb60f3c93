//! Recognition of file systems that a user serves.
//!
//! The kernel reads a page of a file before it probes it, and no process of the machine can fork meanwhile. A file system in
//! user space (FUSE) can keep that page back for ever.

use crate::maps::FileKey;

/// Returns the user (uid) who serves the file system of a file, by the text of /proc/PID/mountinfo (proc_pid_mountinfo(5));
/// `None` if the kernel or root does.
pub fn server(mounts: &str, file: FileKey) -> Option<u32> {
    let (major, minor) = file.device;
    let device = format!("{major}:{minor}");
    let of_device = |line: &&str| line.split(' ').nth(2) == Some(&device);
    let (_, file_system) = mounts.lines().find(of_device)?.split_once(" - ")?;
    let mut fields = file_system.split(' ');
    let (kind, options) = (fields.next()?, fields.nth(1)?);
    let user = options.split(',').find_map(|option| option.strip_prefix("user_id="))?.parse().ok()?;
    (kind.starts_with("fuse") && user != 0).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:41 / /home/user/fuse rw,nosuid - fuse.sshfs host: rw,user_id=1000,group_id=1000,allow_other
31 22 0:42 / /mnt/shared rw,relatime - fuse.juicefs JuiceFS:vol rw,user_id=0,group_id=0,default_permissions
32 22 0:43 / /data rw - 9p user_id=7 rw,user_id=1000
33 22 8:1 / /usb rw,nosuid - fuseblk /dev/sda1 rw,user_id=1001,group_id=1001
34 22 0:44 / /cut rw - fuse.x
bad";

    #[test]
    fn users_serve_fuse_file_systems_that_root_did_not_mount() {
        let of = |device| server(MOUNTS, FileKey { device, inode: 1 });
        assert_eq!([(0, 41), (8, 1)].map(of), [Some(1000), Some(1001)]);
        assert_eq!([(254, 0), (0, 42), (0, 43), (0, 44), (0, 4), (9, 9)].map(of), [None; 6]);
    }
}
