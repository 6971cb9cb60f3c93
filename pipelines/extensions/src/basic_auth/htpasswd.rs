//! htpasswd files: a user and an encoded password per line, in the formats that the Collector's library supports.
//!
//! Passwords are compared in constant time. A wrong password takes as long for every user, whatever the encoding of theirs, and
//! for names that are no user's: the password is compared with one of each encoding.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha_crypt::{PasswordVerifier as _, ShaCrypt};
use sha1::{Digest as _, Sha1};
use subtle::ConstantTimeEq as _;

use super::md5_crypt::md5_crypt;

/// Users and their encoded passwords.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Htpasswd {
    users: BTreeMap<String, Password>,
    /// One of the passwords of each cost.
    samples: BTreeMap<Cost, Password>,
}

/// What determines how long it takes to verify a password: its encoding, and its number of rounds where that varies.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Cost {
    Plain,
    Sha1,
    Md5,
    Bcrypt(u32),
    Sha256(u32),
    Sha512(u32),
}

/// An encoded password.
#[derive(Clone, PartialEq)]
enum Password {
    /// `$2y$`, `$2a$`, `$2b$`, `$2x$`.
    Bcrypt(String),
    /// `$1$` and `$apr1$`: the magic, the salt and the digest.
    Md5 { magic: &'static str, salt: String, digest: String },
    /// `{SHA}` and `{SSHA}`: the digest and the salt, which may be empty.
    Sha1 { digest: Vec<u8>, salt: Vec<u8> },
    /// `$5$` and `$6$`.
    ShaCrypt(String),
    /// Anything else, as it is.
    Plain(String),
}

// An encoded password can be attacked offline, so it is not printed.
impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[REDACTED]")
    }
}

type Parser = fn(&str) -> Option<Password>;

/// The parser of each encoding by its prefix. A text without a known prefix is a plain password.
const PARSERS: [(&str, Parser); 10] = [
    ("$1$", |text| md5("$1$", text)),
    ("$apr1$", |text| md5("$apr1$", text)),
    ("{SHA}", |text| sha1(text.strip_prefix("{SHA}")?).filter(|p| !is_salted(p))),
    ("{SSHA}", |text| sha1(text.strip_prefix("{SSHA}")?)),
    ("$2a$", bcrypt),
    ("$2b$", bcrypt),
    ("$2x$", bcrypt),
    ("$2y$", bcrypt),
    ("$5$", sha_crypt),
    ("$6$", sha_crypt),
];

impl Htpasswd {
    /// Parses the lines and counts invalid ones. A later line overrides an earlier one of the same user.
    pub(crate) fn read(content: &str) -> (Self, usize) {
        let (mut users, mut invalid) = (BTreeMap::new(), 0);
        for line in content.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.split_once(':').and_then(|(user, encoded)| Some((user, Password::read(encoded)?))) {
                Some((user, password)) => _ = users.insert(user.to_owned(), password),
                None => invalid += 1,
            }
        }
        (Htpasswd::of(users), invalid)
    }

    fn of(users: BTreeMap<String, Password>) -> Self {
        let samples = users.values().map(|password| (password.cost(), password.clone())).collect();
        Htpasswd { users, samples }
    }

    /// Adds the users of `later`, which override those of the same name.
    pub(crate) fn merged(mut self, later: &Htpasswd) -> Self {
        self.users.extend(later.users.clone());
        Htpasswd::of(self.users)
    }

    /// Returns true if the user exists and has this password. This takes as long for every user and every other name.
    pub(crate) fn verify(&self, user: &str, password: &str) -> bool {
        let compared = self.compared(user).map(|(encoded, is_own)| encoded.verify(password) & is_own);
        compared.fold(false, |is_right, found| is_right | found)
    }

    /// Returns the passwords that are compared for a user, one of each cost, and which of them is the user's own.
    fn compared(&self, user: &str) -> impl Iterator<Item = (&Password, bool)> {
        let own = self.users.get(user).map(|password| (password.cost(), password));
        self.samples.iter().map(move |(cost, sample)| match own {
            Some((of_own, own)) if of_own == *cost => (own, true),
            _ => (sample, false),
        })
    }

    /// Returns true if verification takes milliseconds by design.
    pub(crate) fn is_slow(&self) -> bool {
        self.samples.keys().any(|cost| !matches!(cost, Cost::Plain | Cost::Sha1))
    }
}

impl Password {
    fn read(encoded: &str) -> Option<Self> {
        match PARSERS.iter().find(|(prefix, _)| encoded.starts_with(prefix)) {
            Some((_, parse)) => parse(encoded),
            None => Some(Password::Plain(encoded.to_owned())),
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Password::Plain(_) => Cost::Plain,
            Password::Sha1 { .. } => Cost::Sha1,
            Password::Md5 { .. } => Cost::Md5,
            Password::Bcrypt(encoded) => {
                Cost::Bcrypt(encoded.parse::<bcrypt::HashParts>().map_or(0, |parts| parts.get_cost()))
            }
            Password::ShaCrypt(encoded) if encoded.starts_with("$5$") => Cost::Sha256(rounds(encoded)),
            Password::ShaCrypt(encoded) => Cost::Sha512(rounds(encoded)),
        }
    }

    fn verify(&self, password: &str) -> bool {
        match self {
            Password::Bcrypt(encoded) => bcrypt::verify(password, encoded).unwrap_or(false),
            Password::Md5 { magic, salt, digest } => is_same(&md5_crypt(password, salt, magic), digest),
            Password::Sha1 { digest, salt } => {
                let own = Sha1::new().chain_update(password).chain_update(salt).finalize();
                own.as_slice().ct_eq(digest).into()
            }
            Password::ShaCrypt(encoded) => {
                ShaCrypt::default().verify_password(password.as_bytes(), encoded.as_str()).is_ok()
            }
            // nginx writes `{PLAIN}` in front of a plain password; the prefix may also be part of the password.
            Password::Plain(plain) => {
                is_same(password, plain) | is_same(&format!("{{PLAIN}}{password}"), plain)
            }
        }
    }
}

/// Compares digests, so that the time does not depend on the lengths.
fn is_same(a: &str, b: &str) -> bool {
    sha2::Sha256::digest(a).ct_eq(&sha2::Sha256::digest(b)).into()
}

fn bcrypt(text: &str) -> Option<Password> {
    text.parse::<bcrypt::HashParts>().ok().map(|_| Password::Bcrypt(text.to_owned()))
}

fn md5(magic: &'static str, text: &str) -> Option<Password> {
    let (salt, digest) = text.strip_prefix(magic)?.split_once('$')?;
    Some(Password::Md5 { magic, salt: salt.to_owned(), digest: digest.to_owned() })
}

const SHA1_BYTES: usize = 20;

fn sha1(text: &str) -> Option<Password> {
    let mut digest = STANDARD.decode(text).ok().filter(|bytes| bytes.len() >= SHA1_BYTES)?;
    let salt = digest.split_off(SHA1_BYTES);
    Some(Password::Sha1 { digest, salt })
}

fn is_salted(password: &Password) -> bool {
    matches!(password, Password::Sha1 { salt, .. } if !salt.is_empty())
}

/// Length of the longest salt; further characters are ignored.
const SALT_MAX: usize = 16;

/// Parses `$id$[rounds$]salt$digest`.
fn sha_crypt(text: &str) -> Option<Password> {
    let mut parts: Vec<&str> = text.split('$').collect();
    let ([_, _, salt, _] | [_, _, _, salt, _]) = parts.as_mut_slice() else { return None };
    *salt = salt.get(..SALT_MAX).unwrap_or(salt);
    Some(Password::ShaCrypt(parts.join("$")))
}

/// Returns the rounds of `$id$[rounds=number$]salt$digest`, 0 for the usual number.
fn rounds(encoded: &str) -> u32 {
    let rounds = encoded.split('$').find_map(|part| part.strip_prefix("rounds="));
    rounds.and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A password longer than any block of a digest.
    const LONG: &str =
        "a much longer password, of more than sixteen and thirty-two and sixty-four bytes in all, indeed";

    /// Passwords encoded by `openssl passwd`, crypt(3) and Python's hashlib.
    const ENCODED: [(&str, &str); 17] = [
        ("$1$abcdefgh$6qENbeetgn0exf.OCTQaP0", "pässword"),
        ("$1$xy$JSgu5Zv4igzK2ULm5nTM30", ""),
        ("$1$12345678$V3RLm2ap6CaAYhrFNIkUX0", LONG),
        ("$apr1$abcdefgh$rRdIxwY5XRHT4TMtBPZn.0", "pässword"),
        ("$apr1$xy$43..WIhbfuznGvwoCyUek/", ""),
        ("$apr1$12345678$S1AJhjVi7PS8v1d3CMMi4.", LONG),
        ("$5$abcdefgh$PMzeX.3Tb43iNPh8ENNzPM9M7q/BLyRKM1Djd5s4Nu8", "pässword"),
        ("$5$12345678$oWZMLY2y.XAARyHm7KboD6K9FRcVJe8Tiot.VKEb6r9", LONG),
        (
            "$6$abcdefgh$iiBW30h6MQUpgkXT9F87NVy6FIbloKXQmfPH87w2UkYa6T8cikoVXkyDCmOccwyrz69xvCZIs4Q.UiGV4ZRkv.",
            "pässword",
        ),
        (
            "$6$rounds=10000$e4fb4910470fd97e$a/qmBMK3b5IJCn1xKFkYR2R6bDTW/q27rmNITwIGYH2fOSZvWuOP.s0AlmalmUd8XyNMSlBI/x8JUeJatduXA/",
            "secret",
        ),
        ("$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", "secret"),
        ("$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", "secret"),
        ("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "secret"),
        ("{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0", "secret"),
        ("secret", "secret"),
        ("{PLAIN}secret", "secret"),
        ("with:colon and space", "with:colon and space"),
    ];

    #[test]
    fn every_format_accepts_only_its_password() {
        for (encoded, password) in ENCODED {
            let (users, invalid) = Htpasswd::read(&format!("  ann:{encoded}  \n\n"));
            assert_eq!(invalid, 0, "{encoded}");
            assert!(users.verify("ann", password), "{encoded}");
            assert!(!users.verify("ann", &format!("{password}.")), "{encoded}");
            assert!(!users.verify("bob", password), "{encoded}");
        }
    }

    #[test]
    fn invalid_lines_are_counted_and_not_plain_passwords() {
        for bad in [
            "ann",
            "ann:{SHA}short",
            "ann:{SHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0",
            "ann:{SSHA}0",
            "ann:$1$nosalt",
            "ann:$5$nosalt",
            "ann:$6$a$b$c$d",
            "ann:$2y$05$short",
        ] {
            let (users, invalid) = Htpasswd::read(bad);
            assert_eq!((invalid, users.users.len()), (1, 0), "{bad}");
        }
    }

    #[test]
    fn later_lines_override_earlier_ones() {
        let (file, _) = Htpasswd::read("ann:one\nbob:b\nann:two");
        assert!(file.verify("ann", "two") && !file.verify("ann", "one"));
        let all = file.merged(&Htpasswd::read("ann:three").0);
        assert!(all.verify("ann", "three") && all.verify("bob", "b"));
        assert!(!format!("{all:?}").contains("three"), "{all:?}");
    }

    /// Users with plain passwords were refused in less than a millisecond, and other names in 66 ms.
    #[test]
    fn a_wrong_password_costs_the_same_for_every_name() {
        let lines = ENCODED.iter().enumerate().map(|(at, (encoded, _))| format!("user{at}:{encoded}\n"));
        let (users, _) = Htpasswd::read(&lines.collect::<String>());
        let costs = |user: &str| users.compared(user).map(|(encoded, _)| encoded.cost()).collect::<Vec<_>>();
        let of_unknown = costs("unknown");
        assert_eq!(of_unknown.len(), users.samples.len());
        for user in users.users.keys() {
            assert_eq!(costs(user), of_unknown, "{user}");
            assert_eq!(users.compared(user).filter(|(_, is_own)| *is_own).count(), 1, "{user}");
        }
        assert!(users.samples.contains_key(&Cost::Bcrypt(4)));
        assert!(users.samples.contains_key(&Cost::Sha512(10_000)));
    }
}
