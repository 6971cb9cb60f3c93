//! The password digest of `$1$` and `$apr1$`: MD5 in a thousand rounds, as FreeBSD's crypt(3) and Apache define it.
//!
//! The digest is weak by today's standards; it is supported because some versions of htpasswd still write it by
//! default.

use md5::{Digest as _, Md5};

const ROUNDS: usize = 1000;
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Indices of the digest bytes that form each group of four digits.
const GROUPS: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];

/// Returns the digest as text, without magic and salt.
pub(super) fn md5_crypt(password: &str, salt: &str, magic: &str) -> String {
    let (password, salt) = (password.as_bytes(), salt.as_bytes());
    let mut digest = first(password, salt, magic.as_bytes());
    for round in 0..ROUNDS {
        digest = next(round, digest, password, salt);
    }
    text(&digest)
}

fn first(password: &[u8], salt: &[u8], magic: &[u8]) -> [u8; 16] {
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut outer = Md5::new().chain_update(password).chain_update(magic).chain_update(salt);
    for at in (0..password.len()).step_by(inner.len()) {
        outer.update(&inner[..inner.len().min(password.len() - at)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        outer.update([if bits & 1 == 1 { 0 } else { password[0] }]);
        bits >>= 1;
    }
    outer.finalize().into()
}

fn next(round: usize, digest: [u8; 16], password: &[u8], salt: &[u8]) -> [u8; 16] {
    let is_odd = round % 2 == 1;
    let (begin, end) = if is_odd { (password, &digest[..]) } else { (&digest[..], password) };
    let mut md5 = Md5::new().chain_update(begin);
    if !round.is_multiple_of(3) {
        md5.update(salt);
    }
    if !round.is_multiple_of(7) {
        md5.update(password);
    }
    md5.chain_update(end).finalize().into()
}

/// Encodes in digits of six bits each, the lowest first.
fn text(digest: &[u8; 16]) -> String {
    let groups = GROUPS.map(|group| group.map(|at| u32::from(digest[at])));
    let mut text: String = groups.iter().flat_map(|[a, b, c]| digits(a << 16 | b << 8 | c, 4)).collect();
    text.extend(digits(u32::from(digest[11]), 2));
    text
}

fn digits(value: u32, count: u32) -> impl Iterator<Item = char> {
    (0..count).map(move |at| char::from(DIGITS[(value >> (6 * at) & 63) as usize]))
}
