//! TLS versions, cipher suites and groups by their names in Go.
//!
//! Go supports more than rustls: old suites, and those that it calls insecure. Unsupported names are logged and
//! ignored; it is an error if no supported one is left, or if Go does not know a name either.

use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::{ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion, version};

/// Versions by name, with their rustls equivalent if supported.
const VERSIONS: [(&str, Option<&SupportedProtocolVersion>); 4] =
    [("1.0", None), ("1.1", None), ("1.2", Some(&version::TLS12)), ("1.3", Some(&version::TLS13))];

/// Suites of Go that rustls does not support, and whether Go calls them insecure.
const UNSUPPORTED: [(&str, bool); 14] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", false),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", true),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", false),
    ("TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", true),
    ("TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", true),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", false),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", true),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", false),
    ("TLS_ECDHE_RSA_WITH_RC4_128_SHA", true),
    ("TLS_RSA_WITH_3DES_EDE_CBC_SHA", true),
    ("TLS_RSA_WITH_AES_128_CBC_SHA", true),
    ("TLS_RSA_WITH_AES_128_GCM_SHA256", true),
    ("TLS_RSA_WITH_AES_256_GCM_SHA384", true),
    ("TLS_RSA_WITH_RC4_128_SHA", true),
];

/// Groups of Go, with their rustls equivalent if supported.
const GROUPS: [(&str, Option<rustls::NamedGroup>); 5] = [
    ("P256", Some(rustls::NamedGroup::secp256r1)),
    ("P384", Some(rustls::NamedGroup::secp384r1)),
    ("P521", None),
    ("X25519", Some(rustls::NamedGroup::X25519)),
    ("X25519MLKEM768", None),
];

/// Returns the supported versions from `min` to `max`; empty is 1.2 and the highest.
pub(super) fn versions(min: &str, max: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let rank = |name: &str, key: &str| {
        let found = VERSIONS.iter().position(|(v, _)| *v == name);
        found.ok_or_else(|| {
            format!("invalid TLS {key}: unsupported TLS version: {name:?}: expected 1.0, 1.1, 1.2 or 1.3")
        })
    };
    let low = rank(if min.is_empty() { "1.2" } else { min }, "min_version")?;
    let high = rank(if max.is_empty() { "1.3" } else { max }, "max_version")?;
    if low > high {
        return Err("invalid TLS configuration: min_version cannot be greater than max_version".to_owned());
    }
    let supported: Vec<_> = VERSIONS[low..=high].iter().filter_map(|(_, version)| *version).collect();
    match supported.is_empty() {
        true => Err(format!("max_version {max:?} leaves no supported version: expected 1.2 or 1.3")),
        false => Ok(supported),
    }
}

/// Returns true if a version below 1.2 is allowed, which is not supported.
pub(super) fn allows_unsupported(min: &str) -> bool {
    matches!(min, "1.0" | "1.1")
}

/// The result of a look-up of names.
pub(super) struct Selection<T> {
    /// The supported values; all if the list is empty.
    pub(super) supported: Vec<T>,
    /// Names that Go supports and rustls does not.
    pub(super) unsupported: Vec<String>,
}

/// Looks up suites of TLS 1.2. Those of TLS 1.3 cannot be configured, as in Go.
pub(super) fn cipher_suites(
    names: &[String],
    allows_insecure: bool,
) -> Result<Selection<SupportedCipherSuite>, String> {
    let all = ring::ALL_CIPHER_SUITES;
    let mut selection = Selection { supported: Vec::new(), unsupported: Vec::new() };
    let mut unknown = Vec::new();
    for name in names {
        match all.iter().find(|suite| go_name(suite) == *name) {
            Some(suite) => selection.supported.push(*suite),
            None if UNSUPPORTED.contains(&(name.as_str(), false)) => selection.unsupported.push(name.clone()),
            None if allows_insecure && UNSUPPORTED.contains(&(name.as_str(), true)) => {
                selection.unsupported.push(name.clone());
            }
            None => unknown.push(format!("invalid TLS cipher suite: {name:?}")),
        }
    }
    if !unknown.is_empty() {
        return Err(unknown.join("; "));
    }
    // TLS 1.3 stays enabled in any case, also if no configured suite is supported.
    let is_12 = |suite: &&SupportedCipherSuite| suite.version().version == ProtocolVersion::TLSv1_2;
    let asked_12 = !names.is_empty();
    selection.supported.retain(|suite| is_12(&suite));
    selection.supported.extend(all.iter().filter(|suite| !asked_12 || !is_12(suite)));
    Ok(selection)
}

/// Returns Go's name of a suite. rustls adds the version to those of TLS 1.3.
fn go_name(suite: &SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    name.replacen("TLS13_", "TLS_", 1)
}

/// Looks up groups, in the configured order.
pub(super) fn groups(names: &[String]) -> Result<Selection<&'static dyn SupportedKxGroup>, String> {
    let all = ring::ALL_KX_GROUPS;
    if names.is_empty() {
        return Ok(Selection { supported: all.to_vec(), unsupported: Vec::new() });
    }
    let mut selection = Selection { supported: Vec::new(), unsupported: Vec::new() };
    for name in names {
        let Some((_, group)) = GROUPS.iter().find(|(known, _)| known == name) else {
            let known = GROUPS.map(|(name, _)| name).join(", ");
            return Err(format!("invalid curve type: {name}. Expected values are {known}"));
        };
        match all.iter().find(|g| Some(g.name()) == *group) {
            Some(group) => selection.supported.push(*group),
            None => selection.unsupported.push(name.clone()),
        }
    }
    match selection.supported.is_empty() {
        true => Err(format!("none of {} is supported: expected X25519, P256 or P384", names.join(", "))),
        false => Ok(selection),
    }
}

/// Returns a provider that offers these suites and groups.
pub(super) fn provider(
    suites: Vec<SupportedCipherSuite>,
    groups: Vec<&'static dyn SupportedKxGroup>,
) -> CryptoProvider {
    CryptoProvider { cipher_suites: suites, kx_groups: groups, ..ring::default_provider() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn versions_are_a_range_of_supported_ones() {
        for (min, max, want) in [
            ("", "", Ok("TLSv1_2 TLSv1_3")),
            ("1.0", "", Ok("TLSv1_2 TLSv1_3")),
            ("1.3", "", Ok("TLSv1_3")),
            ("", "1.2", Ok("TLSv1_2")),
            ("1.3", "1.2", Err("min_version cannot be greater than max_version")),
            ("1.0", "1.1", Err("leaves no supported version")),
            ("1.4", "", Err(r#"invalid TLS min_version: unsupported TLS version: "1.4""#)),
            ("", "tls", Err(r#"invalid TLS max_version: unsupported TLS version: "tls""#)),
        ] {
            let got = versions(min, max).map(|versions| {
                let names = versions.iter().map(|v| v.version.as_str().unwrap_or_default());
                names.collect::<Vec<_>>().join(" ")
            });
            match want {
                Ok(want) => assert_eq!(got.as_deref(), Ok(want), "{min} {max}"),
                Err(want) => assert!(got.as_ref().unwrap_err().contains(want), "{min} {max}: {got:?}"),
            }
        }
    }

    #[test]
    fn suites_have_gos_names_and_tls_13_stays_enabled() {
        let all_13 = 3;
        let select = |names: &[&str], insecure| cipher_suites(&owned(names), insecure);
        let some =
            select(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"], false).ok().unwrap();
        assert_eq!(some.supported.len(), 1 + all_13);
        assert_eq!(select(&[], false).ok().unwrap().supported.len(), ring::ALL_CIPHER_SUITES.len());
        let old = select(&["TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"], false).ok().unwrap();
        assert_eq!((old.supported.len(), old.unsupported.len()), (all_13, 1));
        let insecure = ["TLS_RSA_WITH_RC4_128_SHA"];
        assert_eq!(select(&insecure, true).ok().unwrap().unsupported, insecure);
        for (names, insecure) in [(&insecure[..], false), (&["TLS_NEW"], true)] {
            let refused = select(names, insecure).err().unwrap();
            assert_eq!(refused, format!("invalid TLS cipher suite: {:?}", names[0]));
        }
    }

    #[test]
    fn groups_keep_their_order() {
        let selection = groups(&owned(&["P384", "P521", "X25519"])).ok().unwrap();
        let names: Vec<_> = selection.supported.iter().map(|g| g.name()).collect();
        assert_eq!(names, [rustls::NamedGroup::secp384r1, rustls::NamedGroup::X25519]);
        assert_eq!(selection.unsupported, ["P521"]);
        assert!(groups(&owned(&["P521"])).is_err());
        assert!(groups(&owned(&["P999"])).err().unwrap().starts_with("invalid curve type: P999. Expected"));
    }

    #[test]
    fn tables_are_sorted() {
        assert!(UNSUPPORTED.is_sorted() && GROUPS.is_sorted_by_key(|(name, _)| name));
    }
}
