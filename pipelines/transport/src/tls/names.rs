//! Versions, cipher suites and groups by the names that Go gives them, and which of them are spoken here.
//!
//! Go knows more than rustls: what it calls insecure, and a few old suites. Those are told and left out; only
//! where nothing is left of what was asked for is it an error. A name that Go does not know either is one.

use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::{ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion, version};

/// Versions by name, with what rustls speaks of them.
const VERSIONS: [(&str, Option<&SupportedProtocolVersion>); 4] =
    [("1.0", None), ("1.1", None), ("1.2", Some(&version::TLS12)), ("1.3", Some(&version::TLS13))];

/// Suites that Go knows and rustls does not speak, with whether Go calls them insecure.
const UNSPOKEN: [(&str, bool); 14] = [
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

/// Go's groups, with rustls' names of those it speaks.
const GROUPS: [(&str, Option<rustls::NamedGroup>); 5] = [
    ("P256", Some(rustls::NamedGroup::secp256r1)),
    ("P384", Some(rustls::NamedGroup::secp384r1)),
    ("P521", None),
    ("X25519", Some(rustls::NamedGroup::X25519)),
    ("X25519MLKEM768", None),
];

/// The versions from `min` to `max`; empty is 1.2 and the highest.
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
    let spoken: Vec<_> = VERSIONS[low..=high].iter().filter_map(|(_, version)| *version).collect();
    match spoken.is_empty() {
        true => {
            Err(format!("max_version {max:?} leaves no version that is spoken here: expected 1.2 or 1.3"))
        }
        false => Ok(spoken),
    }
}

/// True where a version below 1.2 is allowed, which is never spoken.
pub(super) fn allows_unspoken(min: &str) -> bool {
    matches!(min, "1.0" | "1.1")
}

/// What was made of a list of names.
pub(super) struct Chosen<T> {
    /// What is spoken of them, or all where none was named.
    pub(super) spoken: Vec<T>,
    /// The names that Go knows and that are not spoken here.
    pub(super) left_out: Vec<String>,
}

/// The suites of TLS 1.2 that were named. Those of TLS 1.3 are not chosen, as in Go.
pub(super) fn cipher_suites(
    names: &[String],
    allows_insecure: bool,
) -> Result<Chosen<SupportedCipherSuite>, String> {
    let all = ring::ALL_CIPHER_SUITES;
    let mut chosen = Chosen { spoken: Vec::new(), left_out: Vec::new() };
    let mut unknown = Vec::new();
    for name in names {
        match all.iter().find(|suite| go_name(suite) == *name) {
            Some(suite) => chosen.spoken.push(*suite),
            None if UNSPOKEN.contains(&(name.as_str(), false)) => chosen.left_out.push(name.clone()),
            None if allows_insecure && UNSPOKEN.contains(&(name.as_str(), true)) => {
                chosen.left_out.push(name.clone());
            }
            None => unknown.push(format!("invalid TLS cipher suite: {name:?}")),
        }
    }
    if !unknown.is_empty() {
        return Err(unknown.join("; "));
    }
    // TLS 1.3 stays possible whatever was named, and is all that is left where no name is spoken.
    let is_12 = |suite: &&SupportedCipherSuite| suite.version().version == ProtocolVersion::TLSv1_2;
    let asked_12 = !names.is_empty();
    chosen.spoken.retain(|suite| is_12(&suite));
    chosen.spoken.extend(all.iter().filter(|suite| !asked_12 || !is_12(suite)));
    Ok(chosen)
}

/// rustls marks the suites of TLS 1.3 in the name itself.
fn go_name(suite: &SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    name.replacen("TLS13_", "TLS_", 1)
}

/// The groups that were named, in their order.
pub(super) fn groups(names: &[String]) -> Result<Chosen<&'static dyn SupportedKxGroup>, String> {
    let all = ring::ALL_KX_GROUPS;
    if names.is_empty() {
        return Ok(Chosen { spoken: all.to_vec(), left_out: Vec::new() });
    }
    let mut chosen = Chosen { spoken: Vec::new(), left_out: Vec::new() };
    for name in names {
        let Some((_, group)) = GROUPS.iter().find(|(known, _)| known == name) else {
            let known = GROUPS.map(|(name, _)| name).join(", ");
            return Err(format!("invalid curve type: {name}. Expected values are {known}"));
        };
        match all.iter().find(|g| Some(g.name()) == *group) {
            Some(group) => chosen.spoken.push(*group),
            None => chosen.left_out.push(name.clone()),
        }
    }
    match chosen.spoken.is_empty() {
        true => Err(format!("none of {} is spoken here: expected X25519, P256 or P384", names.join(", "))),
        false => Ok(chosen),
    }
}

/// A provider that offers what was chosen.
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
    fn versions_are_a_range_of_what_is_spoken() {
        for (min, max, want) in [
            ("", "", Ok("TLSv1_2 TLSv1_3")),
            ("1.0", "", Ok("TLSv1_2 TLSv1_3")),
            ("1.3", "", Ok("TLSv1_3")),
            ("", "1.2", Ok("TLSv1_2")),
            ("1.3", "1.2", Err("min_version cannot be greater than max_version")),
            ("1.0", "1.1", Err("leaves no version that is spoken here")),
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
    fn suites_go_by_gos_names_and_leave_tls_13_alone() {
        let all_13 = 3;
        let chosen = |names: &[&str], insecure| cipher_suites(&owned(names), insecure);
        let some =
            chosen(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"], false).ok().unwrap();
        assert_eq!(some.spoken.len(), 1 + all_13);
        assert_eq!(chosen(&[], false).ok().unwrap().spoken.len(), ring::ALL_CIPHER_SUITES.len());
        let old = chosen(&["TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"], false).ok().unwrap();
        assert_eq!((old.spoken.len(), old.left_out.len()), (all_13, 1));
        let insecure = ["TLS_RSA_WITH_RC4_128_SHA"];
        assert_eq!(chosen(&insecure, true).ok().unwrap().left_out, insecure);
        for (names, insecure) in [(&insecure[..], false), (&["TLS_NEW"], true)] {
            let refused = chosen(names, insecure).err().unwrap();
            assert_eq!(refused, format!("invalid TLS cipher suite: {:?}", names[0]));
        }
    }

    #[test]
    fn groups_keep_their_order() {
        let chosen = groups(&owned(&["P384", "P521", "X25519"])).ok().unwrap();
        let names: Vec<_> = chosen.spoken.iter().map(|g| g.name()).collect();
        assert_eq!(names, [rustls::NamedGroup::secp384r1, rustls::NamedGroup::X25519]);
        assert_eq!(chosen.left_out, ["P521"]);
        assert!(groups(&owned(&["P521"])).is_err());
        assert!(groups(&owned(&["P999"])).err().unwrap().starts_with("invalid curve type: P999. Expected"));
    }

    #[test]
    fn tables_are_sorted() {
        assert!(UNSPOKEN.is_sorted() && GROUPS.is_sorted_by_key(|(name, _)| name));
    }
}
