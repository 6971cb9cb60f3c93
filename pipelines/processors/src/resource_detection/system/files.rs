//! Properties of a machine from files of the kernel and in `/etc`.

use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;

/// The files below a root folder.
pub(super) struct Files<'a> {
    pub(super) root: &'a Path,
}

const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;

impl Files<'_> {
    fn read(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(file)).ok()?;
        Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
    }

    /// Returns a field of the first processor.
    pub(super) fn cpu(&self, field: &str) -> Option<String> {
        let text = self.read("proc/cpuinfo")?;
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(key, _)| key.trim() == field).map(|(_, value)| value.trim().to_owned())
    }

    pub(super) fn machine_id(&self) -> Option<String> {
        self.read("etc/machine-id").or_else(|| self.read("var/lib/dbus/machine-id"))
    }

    /// Returns a value of `os-release`, without quotes and escapes.
    fn release(&self, key: &str) -> Option<String> {
        let text = self.read("etc/os-release").or_else(|| self.read("usr/lib/os-release"))?;
        let mut pairs = text.lines().filter_map(|line| line.trim().split_once('='));
        let value = pairs.find(|(name, _)| name.trim() == key)?.1.trim();
        let inner = ['"', '\''].iter().find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q));
        let mut plain = String::new();
        let mut rest = inner.unwrap_or(value).chars();
        while let Some(c) = rest.next() {
            plain.extend(if c == '\\' { rest.next() } else { Some(c) });
        }
        Some(plain).filter(|text| !text.is_empty())
    }

    fn kernel(&self, file: &str) -> Option<String> {
        self.read(&format!("proc/sys/kernel/{file}"))
    }

    /// Returns the name of the distribution as other agents report it.
    pub(super) fn os_name(&self) -> Option<String> {
        let id = self.release("ID")?;
        Some(match id.as_str() {
            "amzn" => "amazon".to_owned(),
            "archarm" => "arch".to_owned(),
            "ol" => "oracle".to_owned(),
            "rhel" => "redhat".to_owned(),
            _ => id,
        })
    }

    /// Returns the version of the distribution, from a file of its own if there is one, which is more exact.
    pub(super) fn os_version(&self) -> Option<String> {
        let exact = match self.release("ID")?.as_str() {
            "alpine" => self.read("etc/alpine-release"),
            "debian" => self.read("etc/debian_version"),
            _ => None,
        };
        exact.or_else(|| self.release("VERSION_ID"))
    }

    pub(super) fn build_id(&self) -> Option<String> {
        self.release("BUILD_ID").or_else(|| self.kernel("osrelease"))
    }

    /// Returns the distribution and the kernel in the format of `uname -snrvm`.
    pub(super) fn description(&self) -> Option<String> {
        let machine = self.kernel("arch").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let parts: Option<Vec<String>> =
            ["ostype", "hostname", "osrelease", "version"].iter().map(|file| self.kernel(file)).collect();
        let uname = format!("{} {machine}", parts?.join(" "));
        let name = self
            .release("PRETTY_NAME")
            .or_else(|| Some(format!("{} {}", self.release("NAME")?, self.release("VERSION")?)));
        Some(name.map_or_else(|| uname.clone(), |name| format!("{name} ({uname})")))
    }

    /// Returns the names of all interfaces.
    pub(super) fn interfaces(&self) -> Vec<String> {
        let Ok(folder) = fs::read_dir(self.root.join("sys/class/net")) else { return Vec::new() };
        let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Returns whether an interface is up and not a loopback.
    fn is_external(&self, interface: &str) -> bool {
        let flags = self.read(&format!("sys/class/net/{interface}/flags"));
        let flags = flags.and_then(|f| u32::from_str_radix(f.trim_start_matches("0x"), 16).ok()).unwrap_or(0);
        flags & IFF_UP != 0 && flags & IFF_LOOPBACK == 0
    }

    /// Returns the hardware addresses of interfaces that are up, in the IEEE's format.
    pub(super) fn hardware_addresses(&self) -> Vec<String> {
        let names = self.interfaces().into_iter().filter(|name| self.is_external(name));
        let addresses = names.filter_map(|name| self.read(&format!("sys/class/net/{name}/address")));
        addresses.map(|address| address.to_uppercase().replace(':', "-")).collect()
    }

    /// Returns the addresses of the machine, except loopback addresses.
    pub(super) fn addresses(&self) -> Vec<String> {
        let mut addresses = self.addresses_v4();
        addresses.extend(self.addresses_v6());
        addresses
    }

    /// Returns the local IPv4 addresses: each is in the line before `/32 host LOCAL`.
    fn addresses_v4(&self) -> Vec<String> {
        let text = self.read("proc/net/fib_trie").unwrap_or_default();
        let mut found: Vec<String> = Vec::new();
        let mut last = "";
        for line in text.lines().map(str::trim) {
            if line.starts_with("/32 host LOCAL")
                && !last.starts_with("127.")
                && !found.iter().any(|a| a == last)
            {
                found.push(last.to_owned());
            }
            last = line.strip_prefix("|-- ").unwrap_or(last);
        }
        found
    }

    fn addresses_v6(&self) -> Vec<String> {
        let text = self.read("proc/net/if_inet6").unwrap_or_default();
        let address = |line: &str| {
            let (digits, interface) = (line.split_whitespace().next()?, line.split_whitespace().last()?);
            let bits = u128::from_str_radix(digits, 16).ok()?;
            self.is_external(interface).then(|| Ipv6Addr::from(bits).to_string())
        };
        text.lines().filter_map(address).collect()
    }
}
