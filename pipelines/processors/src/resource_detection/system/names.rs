//! The name of the machine: from the kernel, `/etc/hosts`, or the name service.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use dns_lookup::{AddrInfoHints, getaddrinfo, lookup_addr, lookup_host};

/// A source of the host name, of the key `hostname_sources`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Source {
    /// The kernel.
    Os,
    /// The fully qualified name, from `/etc/hosts` or by a reverse lookup of its address.
    Dns,
    /// The canonical name from the name service.
    Cname,
    /// A reverse lookup of its address.
    Lookup,
}

impl Source {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "os" => Source::Os,
            "dns" => Source::Dns,
            "cname" => Source::Cname,
            "lookup" => Source::Lookup,
            _ => return None,
        })
    }

    /// Returns the name. This may block on a name server.
    pub(super) fn host_name(self, root: &Path) -> Result<String, String> {
        let name = host_name(root)?;
        match self {
            Source::Os => Ok(name),
            Source::Dns => in_hosts(root, &name).map_or_else(|| by_address(&name), Ok),
            Source::Cname => canonical(&name),
            Source::Lookup => by_address(&name),
        }
    }
}

/// Returns the kernel's name of the machine, or of the container.
pub(in crate::resource_detection) fn host_name(root: &Path) -> Result<String, String> {
    let file = root.join("proc/sys/kernel/hostname");
    let name = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(name.trim().to_owned())
}

/// Returns the first name of the line of `/etc/hosts` with this name.
fn in_hosts(root: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(root.join("etc/hosts")).ok()?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let mut names = lines.map(|line| line.split_whitespace().skip(1).collect::<Vec<&str>>());
    names.find(|names| names.contains(&name)).map(|names| names[0].to_owned())
}

fn by_address(name: &str) -> Result<String, String> {
    let addresses: Vec<IpAddr> =
        lookup_host(name).map_err(|e| format!("{name}: {}", std::io::Error::from(e)))?.collect();
    let mut named = addresses.iter().filter_map(|address| lookup_addr(address).ok());
    // Without a name the system returns the address.
    let is_name = |found: &String| found.parse::<IpAddr>().is_err();
    let found = named.find(is_name).map(|found| found.trim_end_matches('.').to_owned());
    found.ok_or_else(|| format!("{name}: none of its addresses {addresses:?} has a name"))
}

fn canonical(name: &str) -> Result<String, String> {
    const CANONICAL_NAME: i32 = 2; // AI_CANONNAME of netdb.h
    let hints = AddrInfoHints { flags: CANONICAL_NAME, ..AddrInfoHints::default() };
    let found = getaddrinfo(Some(name), None, Some(hints));
    let found = found.map_err(|e| format!("{name}: {}", std::io::Error::from(e)))?;
    let found = found.filter_map(Result::ok).find_map(|info| info.canonname);
    let found = found.map(|found| found.trim_end_matches('.').to_owned());
    found.ok_or_else(|| format!("{name} has no canonical name"))
}
