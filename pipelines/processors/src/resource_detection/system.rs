//! The detector `system`: properties of the machine from the kernel and `/etc`.
//!
//! `names` finds the host name, `files` reads everything else. Missing properties are omitted; only a missing host
//! name is an error.

mod files;
mod names;

use std::path::PathBuf;

use component::BoxFuture;
use config::Problems;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use super::switches::{Default as Switch, Switches};
use super::{Detector, Found, attribute, text, texts};
use files::Files;
use names::Source;
pub(super) use names::host_name;

/// The attributes of this detector.
const ATTRIBUTES: [Switch; 17] = [
    ("host.arch", false),
    ("host.cpu.cache.l2.size", false),
    ("host.cpu.family", false),
    ("host.cpu.model.id", false),
    ("host.cpu.model.name", false),
    ("host.cpu.stepping", false),
    ("host.cpu.vendor.id", false),
    ("host.id", false),
    ("host.interface", false),
    ("host.ip", false),
    ("host.mac", false),
    ("host.name", true),
    ("os.build.id", false),
    ("os.description", false),
    ("os.name", false),
    ("os.type", true),
    ("os.version", false),
];

config::section! {
    /// The section `system`.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct SystemConfig {
        /// Sources of the host name, tried in order: `os`, `dns`, `cname` or `lookup`. Empty is `dns`, then `os`.
        hostname_sources: Vec<String>,
        /// Attributes to detect, by name.
        resource_attributes: Switches,
    }
}

impl SystemConfig {
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        self.resource_attributes.check("system", &ATTRIBUTES, problems);
        for (index, name) in self.hostname_sources.iter().enumerate() {
            problems.require(Source::parse(name).is_some(), &format!("system::hostname_sources[{index}]"), {
                format!(
                    "hostname_sources contains invalid value: {name:?}: expected os, dns, cname or lookup"
                )
            });
        }
    }
}

pub(super) struct System {
    sources: Vec<Source>,
    switches: Switches,
    root: PathBuf,
}

impl Detector for System {
    fn name(&self) -> &'static str {
        "system"
    }

    fn detect(&self) -> BoxFuture<'_, Result<Found, String>> {
        Box::pin(async {
            let host_name = self.host_name().await?;
            let files = Files { root: &self.root };
            let found = ATTRIBUTES.iter().filter(|(name, _)| self.switches.is_on(name, &ATTRIBUTES));
            let found = found.filter_map(|(name, _)| find(name, &host_name, &files));
            Ok(Found::new(found.collect()))
        })
    }
}

impl System {
    pub(super) fn new(config: &SystemConfig) -> Self {
        let sources: Vec<Source> =
            config.hostname_sources.iter().filter_map(|name| Source::parse(name)).collect();
        let sources = if sources.is_empty() { vec![Source::Dns, Source::Os] } else { sources };
        System { sources, switches: config.resource_attributes.clone(), root: PathBuf::from("/") }
    }

    /// Returns the name from the first source that has one. Names are resolved on a thread that may block.
    async fn host_name(&self) -> Result<String, String> {
        let (sources, root) = (self.sources.clone(), self.root.clone());
        let named = move || {
            let mut errors = Vec::new();
            for source in sources {
                match source.host_name(&root) {
                    Ok(name) => return Ok(name),
                    Err(why) => errors.push(why),
                }
            }
            Err(format!("all hostname sources failed to get hostname: {}", errors.join("; ")))
        };
        tokio::task::spawn_blocking(named).await.unwrap_or_else(|e| Err(e.to_string()))
    }
}

/// Returns an attribute, if the machine has the property.
fn find(name: &str, host_name: &str, files: &Files<'_>) -> Option<KeyValue> {
    let found = match name {
        "host.arch" => architecture(std::env::consts::ARCH).to_owned(),
        "host.cpu.cache.l2.size" => {
            let kib = files.cpu("cache size")?.strip_suffix(" KB")?.parse().ok()?;
            return Some(attribute(name, Value::IntValue(kib)));
        }
        "host.cpu.family" => files.cpu("cpu family")?,
        "host.cpu.model.id" => files.cpu("model")?,
        "host.cpu.model.name" => files.cpu("model name")?,
        "host.cpu.stepping" => files.cpu("stepping")?,
        "host.cpu.vendor.id" => files.cpu("vendor_id")?,
        "host.id" => files.machine_id()?,
        "host.interface" => return Some(texts(name, files.interfaces())),
        "host.ip" => return Some(texts(name, files.addresses())),
        "host.mac" => return Some(texts(name, files.hardware_addresses())),
        "host.name" => host_name.to_owned(),
        "os.build.id" => files.build_id()?,
        "os.description" => files.description()?,
        "os.name" => files.os_name()?,
        "os.type" => std::env::consts::OS.to_owned(),
        "os.version" => files.os_version()?,
        _ => return None,
    };
    Some(text(name, found))
}

/// Returns the name of an architecture in the semantic conventions.
fn architecture(name: &str) -> &str {
    match name {
        "aarch64" => "arm64",
        "arm" => "arm32",
        "powerpc64" => "ppc64",
        "x86_64" => "amd64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the attributes of a machine with these files.
    async fn check(files: &[(&str, &str)], config: &str, want: &[&str]) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let config: SystemConfig = serde_json::from_str(config).unwrap();
        let system = System { root: root.path().to_owned(), ..System::new(&config) };
        let found = system.detect().await.unwrap();
        let written = |a: &KeyValue| format!("{}={}", a.key, pdata::json::plain::text(a.value.as_ref()));
        assert_eq!(found.attributes.iter().map(written).collect::<Vec<_>>(), want, "{config:?}");
    }

    const NAME: (&str, &str) = ("proc/sys/kernel/hostname", "gpu7\n");

    #[tokio::test]
    async fn name_and_os_type_are_detected_by_default() {
        let hosts = ("etc/hosts", "127.0.0.1 localhost\n10.0.0.7 gpu7.example.org gpu7 # here\n");
        check(&[NAME, hosts], "{}", &["host.name=gpu7.example.org", "os.type=linux"]).await;
        let by_os = r#"{"hostname_sources": ["os"], "resource_attributes": {"os.type": {"enabled": false}}}"#;
        check(&[NAME, hosts], by_os, &["host.name=gpu7"]).await;
    }

    #[tokio::test]
    async fn enabled_attributes_are_read_from_files() {
        let on: Vec<String> = ATTRIBUTES
            .iter()
            .filter(|(name, is_on)| !is_on && *name != "host.arch")
            .map(|(name, _)| format!(r#""{name}": {{"enabled": true}}"#))
            .collect();
        let config =
            format!(r#"{{"hostname_sources": ["os"], "resource_attributes": {{{}}}}}"#, on.join(","));
        let cpu = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\
                   model name\t: Xeon\nstepping\t: 8\ncache size\t: 2048 KB\n\nprocessor\t: 1\nmodel\t: 9\n";
        let routes = "Main:\n  +-- 10.0.0.0/8 2 0 2\n     |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 10.255.255.255\n        \
                      /32 link BROADCAST\n  +-- 127.0.0.0/8 2 0 2\n     |-- 127.0.0.1\n        /32 host LOCAL\nLocal:\n     |-- 10.0.0.7\n        /32 host LOCAL\n";
        check(
            &[
                NAME,
                ("proc/cpuinfo", cpu),
                ("proc/net/fib_trie", routes),
                (
                    "proc/net/if_inet6",
                    "00000000000000000000000000000001 01 80 10 80       lo\nfe80000000000000021122fffe334455 02 40 20 80     eth0\n",
                ),
                ("proc/sys/kernel/ostype", "Linux\n"),
                ("proc/sys/kernel/osrelease", "6.8.0\n"),
                ("proc/sys/kernel/version", "#1 SMP\n"),
                ("proc/sys/kernel/arch", "x86_64\n"),
                ("etc/machine-id", "abc123\n"),
                (
                    "etc/os-release",
                    "NAME=\"Ubuntu\"\nID=ubuntu\nVERSION_ID=\"24.04\"\nPRETTY_NAME='Ubuntu 24.04 LTS'\n# x\n",
                ),
                ("sys/class/net/lo/flags", "0x9\n"),
                ("sys/class/net/lo/address", "00:00:00:00:00:00\n"),
                ("sys/class/net/eth0/flags", "0x1003\n"),
                ("sys/class/net/eth0/address", "00:11:22:33:44:5a\n"),
                ("sys/class/net/eth1/flags", "0x1002\n"),
                ("sys/class/net/eth1/address", "00:11:22:33:44:5b\n"),
            ],
            &config,
            &[
                "host.cpu.cache.l2.size=2048",
                "host.cpu.family=6",
                "host.cpu.model.id=143",
                "host.cpu.model.name=Xeon",
                "host.cpu.stepping=8",
                "host.cpu.vendor.id=GenuineIntel",
                "host.id=abc123",
                r#"host.interface=["eth0","eth1","lo"]"#,
                r#"host.ip=["10.0.0.7","fe80::211:22ff:fe33:4455"]"#,
                r#"host.mac=["00-11-22-33-44-5A"]"#,
                "host.name=gpu7",
                "os.build.id=6.8.0",
                "os.description=Ubuntu 24.04 LTS (Linux gpu7 6.8.0 #1 SMP x86_64)",
                "os.name=ubuntu",
                "os.type=linux",
                "os.version=24.04",
            ],
        )
        .await;
    }

    #[tokio::test]
    async fn missing_host_name_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let system = System { root: root.path().to_owned(), ..System::new(&SystemConfig::default()) };
        let error = system.detect().await.unwrap_err();
        assert!(error.starts_with("all hostname sources failed to get hostname: "), "{error}");
    }
}
